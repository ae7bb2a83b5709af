"""A race's charts as SVG that stands in a page by itself: bars of a ranking, and throughput over rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from backend.figures.base import format_ms
from backend.figures.race_throughput import CUT
from backend.schemas.races import Ranking
from backend.services.svg import SERIES, WIDTH, apart, short, svg, text, ticks
from engine.plan.units_of_measure import format_rate, parse_rate

ROW, BAR = 30, 16
"""Heights of a bar's row and of the bar."""
NAMES, VALUES = 210, 110
"""Room left and right of the bars."""
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 330, 70, 190, 14, 44
"""Of the chart over rates: its height and its margins."""
READABLE = 2
"""An interval is drawn whole up to so many times the highest point."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One member's throughput over rates."""

    name: str
    points: list[tuple[float, float]]
    """Rate in bit/s and samples per second, by rate."""
    intervals: list[tuple[float, float, float]] = field(default_factory=list)
    """Rate, and the ends of the 95 % confidence interval there; rates without one left out."""


def bars(ranking: Ranking, longest_ms: float) -> str:
    """Each member's iteration, the exposed part in red; `longest_ms` takes the full width. Empty without figures."""
    shown = [standing for standing in ranking.standings if standing.iteration_ms is not None]
    if not shown:
        return ""
    parts = []
    for row, standing in enumerate(shown):
        iteration = standing.iteration_ms or 0.0
        exposed = min(standing.exposed_ms or 0.0, iteration)
        width = (WIDTH - NAMES - VALUES) * iteration / longest_ms
        red = width * exposed / iteration if iteration else 0.0
        top, middle = row * ROW + (ROW - BAR) / 2, row * ROW + ROW / 2 + 4.5
        parts += [
            text(NAMES - 10, middle, short(standing.name), "end"),
            f'<rect class="step" x="{NAMES}" y="{top:g}" width="{width - red:.1f}" height="{BAR}"/>',
            f'<rect class="wait" x="{NAMES + width - red:.1f}" y="{top:g}" width="{red:.1f}" height="{BAR}"/>',
            text(NAMES + width + 8, middle, format_ms(iteration * 1e6)),
        ]
    alt = "; ".join(f"{s.name} {format_ms((s.iteration_ms or 0) * 1e6)}" for s in shown)
    return svg(len(shown) * ROW, f"Time of an iteration: {alt}", parts)


def lines_of(rankings: Sequence[Ranking]) -> list[Line]:
    """Throughput over rates of every member with figures at two or more of them. Rankings must differ in nothing but
    the rate."""
    found: dict[int, Line] = {}
    for ranking in rankings:
        if ranking.rate is None:
            continue
        rate = float(parse_rate(ranking.rate, "rates"))
        for standing in ranking.standings:
            if standing.samples_per_s:
                name = standing.name if standing.joined_s is None else f"{standing.name} (joined later)"
                line = found.setdefault(standing.member, Line(name=name, points=[]))
                line.points.append((rate, standing.samples_per_s))
                if standing.samples_low is not None and standing.samples_high is not None:
                    line.intervals.append((rate, standing.samples_low, standing.samples_high))
    for line in found.values():
        line.points.sort()
    return [line for _, line in sorted(found.items()) if len(line.points) > 1]


def over_rates(lines: Sequence[Line]) -> str:
    """The lines with their intervals, rates on a logarithmic axis. Empty where there is none. An interval that is wider
    than the figures themselves ends at the chart's edge (`is_cut`)."""
    if not lines:
        return ""
    rates = sorted({rate for line in lines for rate, _ in line.points})
    low, high = math.log(rates[0]), math.log(rates[-1])
    marks = ticks(_top(lines))
    bottom = HEIGHT - BOTTOM

    def x(rate: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(rate) - low) / (high - low)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * min(value / marks[-1], 1)

    parts = []
    for tick in marks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end"))
    for rate in rates:
        parts.append(text(x(rate), bottom + 18, format_rate(rate), "middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "limit of the network", "middle"))
    ends = apart([y(line.points[-1][1]) for line in lines])
    for number, (line, end) in enumerate(zip(lines, ends, strict=True)):
        colour = SERIES[number % len(SERIES)]
        points = " ".join(f"{x(rate):.1f},{y(value):.1f}" for rate, value in line.points)
        parts += [
            f'<line stroke="{colour}" x1="{x(rate):.1f}" x2="{x(rate):.1f}" y1="{y(under):.1f}" y2="{y(over):.1f}"/>'
            for rate, under, over in line.intervals
        ]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2.2" points="{points}"/>')
        parts += [
            f'<circle cx="{x(rate):.1f}" cy="{y(value):.1f}" r="3.5" fill="{colour}"/>'
            for rate, value in line.points
        ]
        parts.append(text(x(line.points[-1][0]) + 10, end + 4, short(line.name), fill=colour))
    named = ", ".join(line.name for line in lines) + (f"; {CUT}" if is_cut(lines) else "")
    return svg(HEIGHT, f"Samples per second over the network's limit: {named}", parts)


def is_cut(lines: Sequence[Line]) -> bool:
    """Whether an interval ends at the edge of `over_rates`, and goes on above it."""
    return any(high > ticks(_top(lines))[-1] for line in lines for *_, high in line.intervals)


def _top(lines: Sequence[Line]) -> float:
    """What the axis has to hold: all points, and intervals as far as these leave them readable."""
    highest = max(value for line in lines for _, value in line.points)
    ends = [high for line in lines for *_, high in line.intervals if high <= READABLE * highest]
    return max([highest, *ends])
