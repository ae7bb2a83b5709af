"""Which plan is best, as a part of a race's report: the verdicts, how every plan learned, and the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backend.best_rows import CURVE_HEAD, HEAD, last, rows
from backend.schemas.best import BestCondition, BestCurve, BestPoint, Criterion, RaceBest
from backend.services.markup import escape
from backend.services.svg import SERIES, WIDTH, apart, short, svg, text, ticks

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 280, 70, 190, 14, 44
AXES: tuple[tuple[str, Callable[[BestPoint], float | None]], ...] = (
    ("steps", lambda point: point.step),
    ("samples", lambda point: point.samples),
    ("MB sent", lambda point: None if point.sent_bytes is None else point.sent_bytes / 1e6),
    ("seconds", lambda point: point.seconds),
)
"""What scores are drawn over."""


def parts(best: RaceBest) -> list[str]:
    """HTML; nothing where no job was evaluated."""
    found = []
    for one in best.conditions:
        if any(curve.points for curve in one.curves):
            found += _condition(best, one)
    return found


def _condition(best: RaceBest, one: BestCondition) -> list[str]:
    at = f" at {one.condition}" if one.condition else ""
    verdicts = "".join(
        f"<tr><td>{escape(each.title)}{f'<br><span class=muted>{escape(each.at)}</span>' if each.at else ''}</td>"
        f"<td>{escape(each.verdict)}</td><td>{escape(each.reason or '-')}</td></tr>"
        for each in one.criteria
    )
    head = "<tr><th>Criterion</th><th>Verdict</th><th>Reason</th></tr>"
    found = [
        f"<h2>Which plan is best{escape(at)}</h2><p>{escape(one.sentence[:1].upper() + one.sentence[1:])}.</p>",
        f'<div class="wide"><table><thead>{head}</thead><tbody>{verdicts}</tbody></table></div>',
        *(f'<p class="muted">{escape(note)}.</p>' for note in one.notes),
    ]
    for name, of in AXES:
        if drawn := chart(best, one.curves, name, of):
            found.append(f"<h3>{escape(_score(best))} over {escape(name)}</h3>{drawn}")
    note = "Means over as many runs as the table counts; an upright line is the 95 % interval of one plan by itself."
    found.append(f'<p class="muted">{escape(note)}</p>')
    cells = "".join(_row(last(best, curve)) for curve in one.curves)
    heads = "".join(
        f"<th>{escape(name)}</th>" for name in ("Plan", f"Last {_score(best)}", "95 %", *CURVE_HEAD)
    )
    found.append(
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table></div>'
    )
    return [*found, *(_criterion(best, each) for each in one.criteria)]


def _criterion(best: RaceBest, one: Criterion) -> str:
    heads = "".join(f"<th>{escape(name.capitalize())}</th>" for name in ("plan", *HEAD))
    cells = "".join(map(_row, rows(best, one)))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"
    return f'<h3>{escape(one.title)}</h3><div class="wide">{table}</div>'


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _score(best: RaceBest) -> str:
    return "Test accuracy" if best.score == "accuracy" else "Test loss"


def chart(
    best: RaceBest, curves: Sequence[BestCurve], over: str, of: Callable[[BestPoint], float | None]
) -> str:
    """Every curve over one of AXES, with its intervals. Empty where nothing can be drawn."""
    factor = 100 if best.score == "accuracy" else 1
    lines = [
        (number, curve, [(x, point) for point in curve.points if (x := of(point)) is not None])
        for number, curve in enumerate(curves)
    ]
    lines = [line for line in lines if line[2]]
    furthest = max((x for *_, points in lines for x, _ in points), default=0.0)
    highest = max((point.score for *_, points in lines for _, point in points), default=0.0)
    if furthest <= 0 or highest <= 0:
        return ""
    across, up = ticks(furthest), ticks(factor * highest)
    bottom = HEIGHT - BOTTOM

    def x_of(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / across[-1]

    def y_of(score: float) -> float:
        return bottom - (bottom - TOP) * min(max(factor * score / up[-1], 0), 1)

    drawn = []
    for tick in up:
        y = y_of(tick / factor)
        drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(text(LEFT - 8, y + 4, f"{tick:g}{' %' if factor == 100 else ''}", "end"))
    drawn += [text(x_of(tick), bottom + 18, f"{tick:g}", "middle") for tick in across]
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, over, "middle"))
    ends = apart([y_of(points[-1][1].score) for *_, points in lines])
    for (number, curve, points), end in zip(lines, ends, strict=True):
        colour = SERIES[number % len(SERIES)]
        drawn += [
            f'<line stroke="{colour}" opacity="0.5" x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" '
            f'y1="{y_of(point.low):.1f}" y2="{y_of(point.high):.1f}"/>'
            for x, point in points
            if point.low is not None and point.high is not None
        ]
        along = " ".join(f"{x_of(x):.1f},{y_of(point.score):.1f}" for x, point in points)
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2.2" points="{along}"/>')
        drawn.append(text(WIDTH - RIGHT + 10, end + 4, short(curve.name), fill=colour))
    named = ", ".join(curve.name for _, curve, _ in lines)
    return svg(HEIGHT, f"{_score(best)} over {over}: {named}", drawn)
