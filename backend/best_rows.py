"""Which plan is best as people read it, row by row: what the terminal prints is what a report holds."""

from __future__ import annotations

from backend.races.missing import missing_words, more_rounds
from backend.rounding import SPEED_UP, number
from backend.schemas.best import BestCurve, BestPlace, Criterion, RaceBest

HEAD = ("value", "95 %", "behind", "interval", "verdict")
"""Of a member by a criterion: its figure with its own interval, and by how much the best one is better."""


def rows(best: RaceBest, criterion: Criterion) -> list[tuple[str, ...]]:
    """Each member's name and what HEAD names."""
    return [(place.name, *_row(best, criterion, place)) for place in criterion.places]


def unit(name: str) -> str:
    """What repeats a speed is a round, what repeats a score another seed."""
    return "round" if name == "speed" else "seed"


def _row(best: RaceBest, criterion: Criterion, place: BestPlace) -> tuple[str, ...]:
    first = criterion.places[0]
    if place.behind is None:
        said = "first"
        if any(other.worse for other in criterion.places):
            said = "leads" if any(other.unsure for other in criterion.places) else "best"
    else:
        said = f"no difference from {first.name} seen"
        if place.worse:
            said = "behind"
        elif place.unsure:
            more = more_rounds((place.missing,), criterion.rounds)
            said = f"too few to tell: {missing_words(more, unit(criterion.name))}"
    return (
        _value(best, criterion, place.value),
        _ends(*(None if end is None else _value(best, criterion, end) for end in (place.low, place.high))),
        "-" if place.behind is None else _gap(best, criterion, place.behind),
        _ends(
            *(
                None if end is None else _gap(best, criterion, end)
                for end in (place.behind_low, place.behind_high)
            )
        ),
        said if criterion.best else "-",
    )


def _value(best: RaceBest, criterion: Criterion, value: float) -> str:
    if criterion.name == "speed":
        return f"{value:.1f} /s"
    return score(best, value)


def score(best: RaceBest, value: float) -> str:
    """`94.31 %`, `2.345`."""
    return f"{100 * value:.2f} %" if best.score == "accuracy" else f"{value:.3f}"


def _gap(best: RaceBest, criterion: Criterion, value: float) -> str:
    if criterion.name == "speed":
        return SPEED_UP.format(value)
    return f"{100 * value:.2f}" if best.score == "accuracy" else f"{value:.3f}"


def _ends(low: str | None, high: str | None) -> str:
    return "-" if low is None or high is None else f"{low} to {high}"


CURVE_HEAD = ("step", "samples", "MB sent", "seconds", "runs")


def last(best: RaceBest, curve: BestCurve) -> tuple[str, ...]:
    """A member's name, its last score with its interval, and at what CURVE_HEAD names it was reached."""
    if not curve.points:
        return (curve.name, "-", "-", *("-" for _ in CURVE_HEAD[:-1]), str(curve.rounds))
    point = curve.points[-1]
    ends = (None if end is None else score(best, end) for end in (point.low, point.high))
    sent = None if point.sent_bytes is None else point.sent_bytes / 1e6
    return (
        curve.name,
        score(best, point.score),
        _ends(*ends),
        f"{point.step:.0f}",
        f"{point.samples:,.0f}",
        number(sent, "{:.1f}"),
        f"{point.seconds:.1f}",
        str(curve.rounds),
    )
