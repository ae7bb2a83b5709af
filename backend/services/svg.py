"""Parts of a chart as SVG that stands in a page by itself: text, labels kept apart, round numbers for an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backend.figures.theme import COLOURS
from backend.services.markup import escape

WIDTH = 760
NAME_LENGTH = 30
"""So many characters of a name fit beside its bar or line; the table has all of them."""
SERIES = COLOURS["light"].series


def ticks(largest: float) -> list[float]:
    """From 0 to the first round number that is not below `largest`, in at most six steps."""
    size = 10 ** math.floor(math.log10(largest))
    step = next(part * size for part in (0.2, 0.5, 1, 2) if part * size * 6 >= largest)
    return [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]


def apart(heights: Sequence[float], least: float = 15.0) -> list[float]:
    """The same heights, moved down where two labels would lie on one another."""
    placed: dict[int, float] = {}
    last = -math.inf
    for index in sorted(range(len(heights)), key=lambda i: heights[i]):
        last = placed[index] = max(heights[index], last + least)
    return [placed[index] for index in range(len(heights))]


def short(name: str) -> str:
    """A name that fits."""
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


def text(x: float, y: float, said: str, anchor: str = "start", fill: str | None = None) -> str:
    """What is said there."""
    colour = "" if fill is None else f' style="fill:{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{colour}>{escape(said)}</text>'


def svg(height: float, alt: str, parts: Sequence[str]) -> str:
    """The whole picture."""
    box = f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(alt)}"'
    return f"<svg {box}>{''.join(parts)}</svg>"
