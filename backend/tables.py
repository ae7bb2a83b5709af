"""Tables that Python users get: rows of plain values, which a notebook, a terminal and pandas show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Self

from backend.called import apart
from backend.cli.text import columns
from backend.race_rows import HEAD, rows_of
from backend.rounding import SPEED_UP, STEP_TIME, THROUGHPUT, TIMES_FASTEST
from backend.schemas.jobs import Job
from backend.schemas.races import RaceView, Ranking, Standing
from backend.schemas.telemetry import Summary
from backend.speed_ups import sentences
from engine.errors import UserError
from engine.plan.characters import visible

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]
ROUNDED = {
    **dict.fromkeys(("iteration_ms", "compute_ms", "exposed_ms", "input_ms"), STEP_TIME.removesuffix(" ms")),
    "samples_per_s": THROUGHPUT,
    "speed_up": SPEED_UP.removesuffix("x"),
    "times_fastest": TIMES_FASTEST,
    **dict.fromkeys(("low", "high", "speed_up_low", "speed_up_high"), SPEED_UP.removesuffix("x")),
}
"""How columns of numbers are written; others with four digits. Their units are in their names."""
WIDE = 100
"""Characters of a printed race's lines."""
SHOWN = HEAD.index("rounds") + 1
"""Columns of HEAD there: what is about the machine follows in the sentence of what limits each."""
STYLE = "text-align: right; padding: 0 0.8em"


class Table:
    """Rows of plain values (numbers in the unit that the column's name ends with, text, None where nothing is known),
    and what is to be said of them."""

    def __init__(self, rows: Sequence[Row], sentences: Sequence[str] = ()) -> None:
        """All rows have the same columns, in the same order."""
        self.rows = [dict(row) for row in rows]
        """The table as a list of dictionaries."""
        self.sentences = tuple(sentences)
        """What follows from it, or what to know of it."""

    rounded: ClassVar[Mapping[str, str]] = ROUNDED

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.rows[0]) if self.rows else ()

    def to_pandas(self) -> pandas.DataFrame:
        """As a DataFrame. Raises UserError where pandas is not installed: then `rows` holds the same."""
        try:
            import pandas  # noqa: PLC0415 - not ours to ask for
        except ImportError:
            remedy = "pip install pandas, or use `rows`, which holds the same"
            raise UserError("to_pandas", "pandas", "is not installed", remedy) from None
        return pandas.DataFrame(self.rows, columns=list(self.columns))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Row:
        return self.rows[place]

    def __repr__(self) -> str:
        table = columns(self.columns, [[self._said(*cell) for cell in row.items()] for row in self.rows])
        return "\n".join([*self.sentences, table])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        head = "".join(f'<th style="{STYLE}">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{STYLE}">{escape(self._said(*cell))}</td>' for cell in row.items())
            + "</tr>"
            for row in self.rows
        )
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)
        return f"{said}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _said(self, column: str, value: object) -> str:
        if value is None:
            return "-"
        return self.rounded.get(column, "{:.4g}").format(value) if isinstance(value, float) else str(value)


class RaceTable(Table):
    """A race: a row for each member under each condition, the fastest first. `times_fastest` is over the fastest's
    time, with `low` and `high`. `unsure`: there are too few rounds to tell it from the fastest, and `rounds_missing`
    more would. `speed_up` is over the race's first member."""

    rounded = ROUNDED | dict.fromkeys(("low", "high"), TIMES_FASTEST)

    def __init__(self, rows: Sequence[Row], sentences: Sequence[str], race: RaceView) -> None:
        super().__init__(rows, sentences)
        self.race = race
        """All that the service says of it."""

    @classmethod
    def of(cls, race: RaceView) -> Self:
        """The race as it stands."""
        rows = [_member(ranking, standing) for ranking in race.rankings for standing in ranking.standings]
        sentences = list(map(_sentence, race.rankings))
        return cls(rows, [*sentences, *race.notes, *race.crossings], race)

    @property
    def id(self) -> str:
        """The race's."""
        return self.race.id

    def __repr__(self) -> str:
        """What the columns say, at most WIDE characters wide: with all of them a row would go on in several lines.
        `rows` has everything."""
        lines: list[str] = []
        for ranking in self.race.rankings:
            gains = _wrapped(f"{ranking.gains}.") if ranking.gains else []
            lines += [*_wrapped(_sentence(ranking)), *gains, *_figures(ranking), ""]
        for sentence in (*self.race.notes, *self.race.crossings):
            lines += _wrapped(sentence)
        return "\n".join(lines).rstrip()


def _sentence(ranking: Ranking) -> str:
    return f"{ranking.condition}: {ranking.sentence}" if ranking.condition else ranking.sentence


def _figures(ranking: Ranking) -> list[str]:
    """A ranking's table, and what there is to say below it."""
    found = rows_of(ranking)
    figures = columns(HEAD[:SHOWN], [row.figures[:SHOWN] for row in found.ranked]).splitlines()
    room = WIDE - len("  ") - max(map(len, figures))
    names = columns([""], [[_cut(f"{row.place} {row.name}", room)] for row in found.ranked]).splitlines()
    width = max(map(len, names))
    table = (
        [f"{name:{width}}  {line}" for name, line in zip(names, figures, strict=True)] if found.ranked else []
    )
    said = [f"{name}: {sentence}" for name, sentence in found.limits]
    said += [f"{name} takes no part: {reason}" for name, reason in found.out]
    return [*table, *(line for text in said for line in _wrapped(text, "   "))]


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: room - 1]}…"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(
        visible(text), WIDE, initial_indent=indent, subsequent_indent="   ", break_on_hyphens=False
    ) or [""]


def jobs_table(jobs: Sequence[tuple[Job, Summary]]) -> Table:
    """Jobs side by side; all but the first, the baseline, with their speed-up over it."""
    names = apart([job.name for job, _ in jobs], [job.id for job, _ in jobs])
    rows = [_job(job, summary, names[0], first=place == 0) for place, (job, summary) in enumerate(jobs)]
    return Table(rows, list(sentences(names, [summary.speed_up for _, summary in jobs[1:]])))


def _member(ranking: Ranking, standing: Standing) -> Row:
    return {
        "condition": ranking.condition,
        "rank": standing.rank,
        "member": standing.name,
        "iteration_ms": standing.iteration_ms,
        "exposed_ms": standing.exposed_ms,
        "samples_per_s": standing.samples_per_s,
        "times_fastest": standing.times_fastest,
        "low": standing.low,
        "high": standing.high,
        "significant": standing.significant,
        "unsure": standing.unsure,
        "rounds_missing": standing.missing,
        "speed_up": standing.speed_up,
        "speed_up_low": standing.speed_up_low,
        "speed_up_high": standing.speed_up_high,
        "rounds": standing.rounds,
        "port_busy": standing.port_busy,
        "processors_busy": standing.processors.busy if standing.processors else None,
        "limit": standing.limit.sentence if standing.limit else None,
        "takes_no_part": standing.out,
    }


def _job(job: Job, summary: Summary, baseline: str, *, first: bool) -> Row:
    faster = None if first else summary.speed_up
    return {
        "id": job.id,
        "job": job.name,
        "strategy": job.planned_by,
        "workers": job.workers,
        "compute": job.rehearsed or "measured",
        "slowed": job.slowed,
        "rate_bps": job.rate_bps,
        "state": job.state,
        "iteration_ms": summary.iteration_ms,
        "compute_ms": summary.compute_ms,
        "exposed_ms": summary.exposed_ms,
        "input_ms": summary.input_ms,
        "samples_per_s": summary.samples_per_s,
        "processors_busy": summary.processors.busy if summary.processors else None,
        "wire_bytes_per_step": summary.wire_bytes_per_step,
        "counted_bytes_per_step": summary.counted_bytes_per_step,
        "test_accuracy": summary.test_accuracy,
        "time_to_target_s": summary.time_to_target_s,
        "baseline": baseline,
        "speed_up": 1.0 if first else faster.value if faster else None,
        "low": faster.low if faster else None,
        "high": faster.high if faster else None,
        "scaling": faster.kind if faster else None,
    }
