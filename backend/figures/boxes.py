"""Spans as boxes on the drawing: events placed in rows, with what decides their colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.figures.rows import BAND_BOTTOM, BAND_TOP, ROW_HEIGHT, TRACKS, Row, lanes
from engine.telemetry.events import Kind, Track

SHADES = 16
"""Colours along the palette: neighbouring layers of a deep network share one."""
WAIT, OTHER, SWAP_OUT, SWAP_IN, AGAIN = range(SHADES, SHADES + 5)
"""Colour codes of exposed waiting, of what belongs to no layer, and of what memory mechanisms do; 0 to SHADES - 1 are
layers' positions."""
OF_MEMORY = {Kind.SWAP_OUT: SWAP_OUT, Kind.SWAP_IN: SWAP_IN, Kind.RECOMPUTE: AGAIN}
"""Their codes by kind, whichever layer they are of."""
CODES = SHADES + 5


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """n boxes, in the order of their start within each row."""

    x0: np.ndarray
    """(n) s since the drawing's origin."""
    x1: np.ndarray
    y0: np.ndarray
    """(n) upper edge, in rows."""
    y1: np.ndarray
    code: np.ndarray
    """(n) colour code."""
    row: np.ndarray
    """(n) index into the drawing's rows."""
    source: np.ndarray
    """(n) index of the span that it shows (the first of them, where several were merged; -1: of none)."""

    def __len__(self) -> int:
        return len(self.x0)

    @staticmethod
    def join(parts: Sequence[Boxes]) -> Boxes:
        """Several jobs' boxes on one drawing."""
        names = ("x0", "x1", "y0", "y1", "code", "row", "source")
        return Boxes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def codes(spans: np.ndarray, layers: int) -> np.ndarray:
    """Colour code of each SPAN: exposed waiting first, then the layer's position among `layers`."""
    position = spans["layer"] * SHADES // max(layers, 1) if layers >= SHADES else _few(spans["layer"], layers)
    code = np.where(spans["layer"] < 0, OTHER, np.clip(position, 0, SHADES - 1))
    code = np.where(spans["kind"] == Kind.INPUT, OTHER, code)
    for kind, own in OF_MEMORY.items():
        code = np.where(spans["kind"] == kind, own, code)
    waits = (spans["kind"] == Kind.WAIT) & (spans["track"] == Track.COMPUTE)
    return np.where(waits, WAIT, code).astype(np.uint8)


def shade(layer: int, layers: int) -> int:
    """Colour code of one layer."""
    return int(layer * SHADES // layers if layers >= SHADES else _few(np.array([layer]), layers)[0])


def position(layer: int, layers: int) -> float:
    """Where a layer lies on the scale of colour codes."""
    return layer * (SHADES - 1) / max(layers - 1, 1)


def _few(layer: np.ndarray, layers: int) -> np.ndarray:
    """Few layers spread over the whole palette."""
    return np.rint(layer * (SHADES - 1) / max(layers - 1, 1)).astype(np.int64)


def row_index(spans: np.ndarray, rows: Sequence[Row]) -> np.ndarray:
    """The row of each SPAN, as an index into `rows`."""
    known = {(row.party, int(row.track)): i for i, row in enumerate(rows)}
    track = np.where(spans["track"] == Track.INPUT, Track.COMPUTE, spans["track"]).astype(np.int64)
    key = spans["party"].astype(np.int64) * TRACKS + track
    table = np.full(int(key.max(initial=0)) + 1, -1)
    for (party, number), i in known.items():
        if party * TRACKS + number < len(table):
            table[party * TRACKS + number] = i
    return table[key]


def merge_near(spans: np.ndarray, row: np.ndarray, code: np.ndarray, gap_ns: float) -> tuple[np.ndarray, ...]:
    """Neighbours of one row, peer, kind and colour that are closer than `gap_ns` become one: too near to be
    told apart at this zoom. Returns `(source, start, end)`, by row and start."""
    order = np.lexsort((spans["start"], spans["kind"], spans["peer"], row))
    start, end = spans["start"][order], spans["end"][order]
    new = np.ones(len(order), bool)
    if len(order):
        same = np.ones(len(order) - 1, bool)
        for column in (row, code, spans["peer"], spans["kind"]):
            same &= column[order][1:] == column[order][:-1]
        new[1:] = ~(same & (start[1:] - end[:-1] < gap_ns))
    first = np.flatnonzero(new)
    reached = np.maximum.reduceat(end, first) if len(first) else end
    source, start = order[first], start[first]
    by_row = np.lexsort((start, row[source]))
    return source[by_row], start[by_row], reached[by_row]


def place(
    spans: np.ndarray, rows: Sequence[Row], layers: int, origin_ns: int, *, merge_ns: float = 0.0
) -> Boxes:
    """Boxes of SPAN rows; spans of no row are left out. `merge_ns` > 0 merges neighbours nearer than that."""
    row, code = row_index(spans, rows), codes(spans, layers)
    keep = np.flatnonzero(row >= 0)
    if merge_ns > 0:
        source, start, end = merge_near(spans[keep], row[keep], code[keep], merge_ns)
        source = keep[source]
    else:
        source = keep[np.lexsort((spans["start"][keep], row[keep]))]
        start, end = spans["start"][source], spans["end"][source]
    row, code = row[source], code[source]
    y0, y1 = np.empty(len(source)), np.empty(len(source))
    for i, place_ in enumerate(rows):
        mine = np.flatnonzero(row == i)
        if not len(mine):
            continue
        kind = spans["kind"][source[mine]]
        if place_.track == Track.COMPUTE:
            top, bottom = BAND_TOP[kind], BAND_BOTTOM[kind]
        else:
            lane, count = lanes(start[mine], end[mine])
            top, bottom = lane / count, (lane + 1) / count
        y0[mine] = place_.y + ROW_HEIGHT * top
        y1[mine] = place_.y + ROW_HEIGHT * bottom
    return Boxes(
        x0=(start - origin_ns) / 1e9,
        x1=(np.maximum(end, start) - origin_ns) / 1e9,
        y0=y0,
        y1=y1,
        code=code,
        row=row,
        source=source,
    )
