"""A race's figures as people read them, row by row: what the terminal prints is what a report holds."""

from __future__ import annotations

from dataclasses import dataclass

from backend.races.spec import FEWEST_ROUNDS
from backend.rounding import (
    NOT_MEASURED,
    PROCESSORS_UNKNOWN,
    SHARE,
    STEP_TIME,
    THROUGHPUT,
    TIMES_FASTEST,
    number,
)
from backend.schemas.races import Ranking, Standing

HEAD = (
    "iteration",
    "exposed",
    "samples/s",
    "relative time",
    "95 %",
    "rounds",
    "port busy",
    "processors busy",
    "with its job",
)
"""Of a row's figures. `relative time` is over the fastest's, with its interval. `port busy` is a share of a link's rate
while workers waited, of whichever port was busiest at each moment. The last two are shares of all processors: not
idle, and busy with the processes of the member's own job."""


NO_INTERVAL = f"A 95 % interval needs {FEWEST_ROUNDS} rounds"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A member that has figures."""

    place: str
    """As the page writes it: `1`, `1 (not told apart)` where others have the same; `-` where it has none."""
    name: str
    figures: tuple[str, ...]
    """One for each of HEAD; `-` where one is not known."""


@dataclass(frozen=True, kw_only=True)
class RankingRows:
    """All members under one condition."""

    ranked: tuple[Row, ...]
    """Fastest first; those without a place are the last."""
    limits: tuple[tuple[str, str], ...]
    """Of those, who is limited, and by what, in a sentence."""
    out: tuple[tuple[str, str], ...]
    """Who takes no part, and why."""
    notes: tuple[str, ...] = ()
    """Why figures are missing in the table."""


def rows_of(ranking: Ranking) -> RankingRows:
    """What is to be said of a ranking, beside its sentence."""
    ranked = [standing for standing in ranking.standings if standing.iteration_ms is not None]
    notes = []
    if any(one.times_fastest is not None and one.rounds < FEWEST_ROUNDS for one in ranked):
        notes.append(NO_INTERVAL)
    if any(one.processors is None for one in ranked):
        notes.append(PROCESSORS_UNKNOWN)
    return RankingRows(
        ranked=tuple(map(_row, ranked)),
        limits=tuple((one.name, one.limit.sentence) for one in ranked if one.limit is not None),
        out=tuple((one.name, one.out) for one in ranking.standings if one.out is not None),
        notes=tuple(notes),
    )


def _row(standing: Standing) -> Row:
    ends = [number(end, TIMES_FASTEST) for end in (standing.low, standing.high) if end is not None]
    machine = standing.processors
    return Row(
        place=f"{number(standing.rank, '{}')}{' (not told apart)' * standing.tied}",
        name=standing.name,
        figures=(
            number(standing.iteration_ms, STEP_TIME),
            number(standing.exposed_ms, STEP_TIME),
            number(standing.samples_per_s, THROUGHPUT),
            number(standing.times_fastest, TIMES_FASTEST),
            " to ".join(ends) or "-",
            str(standing.rounds),
            number(None if standing.port_busy is None else 100 * standing.port_busy, SHARE),
            number(100 * machine.busy if machine else None, SHARE, NOT_MEASURED),
            number(100 * machine.own if machine else None, SHARE, NOT_MEASURED),
        ),
    )
