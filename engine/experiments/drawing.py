"""Utilization over time as one self-contained SVG: a panel per link, outwards above the axis, inwards below."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

_WIDTH, _HEIGHT, _GAP, _LEFT = 900, 110, 34, 70
_COLOURS = ("#2b6cb0", "#c05621")
"""Outwards, inwards."""


def utilization(title: str, panels: Sequence[tuple[str, np.ndarray, np.ndarray]], bin_s: float) -> str:
    """`panels`: name, and outwards and inwards (bins,) as shares of the link's rate. Bars are clipped at 1.2."""
    height = _GAP + len(panels) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="18">{escape(title)}</text>',
    ]
    for number, (name, tx, rx) in enumerate(panels):
        parts += _panel(name, tx, rx, bin_s, _GAP + number * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(name: str, tx: np.ndarray, rx: np.ndarray, bin_s: float, top: float) -> list[str]:
    middle, half = top + _HEIGHT / 2, _HEIGHT / 2
    wide = (_WIDTH - _LEFT - 10) / max(len(tx), 1)
    parts = [f'<text x="{_LEFT}" y="{top + 4:.0f}">{escape(name)}, {len(tx) * bin_s:.1f} s</text>']
    for values, sign, colour in ((tx, -1, _COLOURS[0]), (rx, 1, _COLOURS[1])):
        reach = middle + sign * half * np.minimum(values, 1.2) / 1.2
        points = [
            f"{_LEFT + (n + side) * wide:.1f},{y:.1f}"
            for n, y in enumerate(reach.tolist())
            for side in (0, 1)
        ]
        corners = [f"{_LEFT},{middle:.1f}", *points, f"{_LEFT + len(tx) * wide:.1f},{middle:.1f}"]
        parts.append(f'<polygon fill="{colour}" points="{" ".join(corners)}"/>')
        full = middle + sign * half / 1.2
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{full:.1f}" y2="{full:.1f}" stroke="#888" '
            'stroke-dasharray="3 3"/>'
        )
        parts.append(
            f'<text x="8" y="{full + 4:.1f}" fill="{colour}">{"out" if sign < 0 else "in"} 100 %</text>'
        )
    return parts
