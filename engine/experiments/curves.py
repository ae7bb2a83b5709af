"""Scores as one self-contained SVG: bands over looks, and where runs end, against time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP = 430, 260, 70, 60, 50
_COLOURS = ("#2b6cb0", "#c05621")


def bands_and_ends(
    title: str,
    bands: Mapping[str, Sequence[Sequence[float]]],
    ends: Mapping[str, Sequence[tuple[float, float]]],
) -> str:
    """`bands`: of each of two ways, after each look the scores of its runs, in percent. `ends`: of each run its time in
    seconds, and its last score."""
    scores = [score for looks in bands.values() for look in looks for score in look]
    last = [score for pairs in ends.values() for _, score in pairs]
    times = [time for pairs in ends.values() for time, _ in pairs]
    right = _LEFT + _WIDTH + _GAP
    wide = right + _WIDTH + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {_TOP + _HEIGHT + 50}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="18">{escape(title)}</text>',
    ]
    longest = max(len(looks) for looks in bands.values())
    across, up = (
        _scale((1, max(longest, 2)), _LEFT, _WIDTH),
        _scale(_around(scores), _TOP + _HEIGHT, -_HEIGHT),
    )
    parts += _axes(_LEFT, "epochs", (1, longest), _around(scores))
    for (name, looks), colour in zip(bands.items(), _COLOURS, strict=True):
        best = [(across(at), up(max(look))) for at, look in enumerate(looks, 1)]
        worst = [(across(at), up(min(look))) for at, look in enumerate(looks, 1)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*best, *reversed(worst)])
        parts.append(
            f'<polygon points="{points}" fill="{colour}" fill-opacity="0.35" stroke="{colour}"><title>'
            f"{escape(name)}</title></polygon>"
        )
    across, up = _scale(_around(times), right, _WIDTH), _scale(_around(last), _TOP + _HEIGHT, -_HEIGHT)
    parts += _axes(right, "seconds", _around(times), _around(last))
    for (name, pairs), colour in zip(ends.items(), _COLOURS, strict=True):
        for time, score in pairs:
            parts.append(
                f'<circle cx="{across(time):.1f}" cy="{up(score):.1f}" r="5" fill="{colour}" fill-opacity="0.7">'
                f"<title>{escape(name)}: {score:.2f} % after {time:.0f} s</title></circle>"
            )
    for number, (name, colour) in enumerate(zip(ends, _COLOURS, strict=True)):
        parts.append(f'<text x="{_LEFT + 90 * number}" y="38" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _around(values: Sequence[float]) -> tuple[float, float]:
    """A range that holds them, with some room."""
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _scale(ends: tuple[float, float], start: float, length: float) -> Callable[[float], float]:
    low, high = ends
    return lambda value: start + (value - low) / (high - low) * length


def _axes(left: float, name: str, across: tuple[float, float], up: tuple[float, float]) -> list[str]:
    bottom = _TOP + _HEIGHT
    return [
        f'<path d="M{left},{_TOP} V{bottom} H{left + _WIDTH}" fill="none" stroke="#888"/>',
        f'<text x="{left}" y="{bottom + 18}">{across[0]:.4g}</text>',
        f'<text x="{left + _WIDTH}" y="{bottom + 18}" text-anchor="end">{across[1]:.4g} {escape(name)}</text>',
        f'<text x="{left - 6}" y="{bottom}" text-anchor="end">{up[0]:.1f}</text>',
        f'<text x="{left - 6}" y="{_TOP + 8}" text-anchor="end">{up[1]:.1f} %</text>',
    ]
