"""Where things stand in a timeline: a few rows per party (compute, send, receive, server), not a lane per
layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.telemetry.events import Kind, Track

TRACK_NAMES = {
    Track.COMPUTE: "compute",
    Track.MEMORY: "swap",
    Track.SERVER: "reduce",
    Track.SEND: "send",
    Track.RECEIVE: "receive",
}
"""In the order of a party's rows; `swap` is what moves between tiers of memory, `reduce` what servers (reducing,
updating) and native collectives do."""
TRACKS = 16
"""More than there are: party and track as one number are party x TRACKS + track."""
PARTY_GAP = 0.45
ROW_HEIGHT = 0.84
"""Of one unit: the rest is the space between rows."""
MAX_LANES = 4
"""Transfers at the same time (to several peers) share a row's height; beyond, they are drawn over one
another."""

# Forward and backward lie at different heights of the compute row, so that one sees the two apart in the same
# colours; waiting takes the whole height. Share of the row's height: (top, bottom).
_BAND = {
    Kind.FORWARD: (0.0, 0.68),
    Kind.BACKWARD: (0.32, 1.0),
    Kind.RECOMPUTE: (0.0, 0.32),
    Kind.UPDATE: (0.72, 1.0),
    Kind.AVERAGE: (0.72, 1.0),
    Kind.ENCODE: (0.72, 1.0),
    Kind.DECODE: (0.72, 1.0),
    Kind.INPUT: (0.82, 1.0),
}
BAND_TOP = np.array([_BAND.get(kind, (0.0, 1.0))[0] for kind in Kind])
BAND_BOTTOM = np.array([_BAND.get(kind, (0.0, 1.0))[1] for kind in Kind])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row. `y` grows downwards, in rows."""

    party: int
    track: Track
    label: str
    y: float
    """Its upper edge; it is ROW_HEIGHT high."""

    @property
    def centre(self) -> float:
        return self.y + ROW_HEIGHT / 2


def rows_of(
    party: np.ndarray, track: np.ndarray, names: Sequence[str], *, top: float = 0.0, short: bool = False
) -> list[Row]:
    """Rows for everything that was recorded: `party` and `track` (n) say who did something, and where.

    Input is drawn in the compute row. `short` labels `worker 0` as `w0`.
    """
    track = np.where(track == Track.INPUT, Track.COMPUTE, track)
    keys = np.unique(
        party.astype(np.int64) * TRACKS + track
    )  # one number a span: pairs take ten times as long
    found = np.stack(np.divmod(keys, TRACKS), axis=1)
    rows: list[Row] = []
    y = top
    for index in np.unique(found[:, 0]):
        if rows:
            y += PARTY_GAP
        name = names[index] if 0 <= index < len(names) else f"party {index}"
        for number in sorted(found[found[:, 0] == index, 1], key=list(TRACK_NAMES).index):
            first = not any(row.party == index for row in rows)
            what = TRACK_NAMES[Track(int(number))]
            label = f"<b>{abbreviate(name) if short else name}</b> {what}" if first else what
            rows.append(Row(party=int(index), track=Track(int(number)), label=label, y=y))
            y += 1
    return rows


def height_of(rows: Sequence[Row]) -> float:
    """Lower edge of the last row; 0 without rows."""
    return rows[-1].y + ROW_HEIGHT if rows else 0.0


def abbreviate(name: str) -> str:
    """`w0` of `worker 0`."""
    kind, _, number = name.partition(" ")
    return f"{kind[:1]}{number}" if number else name


def lanes(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, int]:
    """Which lane of its row each span takes so that spans at the same time lie side by side, and how many
    lanes there are. Spans are given by start; each takes the first free lane."""
    lane = np.zeros(len(start), np.int8)
    if len(start) < 2 or (start[1:] >= np.maximum.accumulate(end)[:-1]).all():
        return lane, 1
    free = [0]
    for i, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        choice = next((k for k, until in enumerate(free) if until <= begins), len(free))
        if choice == len(free):
            if choice == MAX_LANES:
                choice = min(range(MAX_LANES), key=free.__getitem__)
            else:
                free.append(0)
        free[choice] = max(free[choice], ends)
        lane[i] = choice
    return lane, len(free)
