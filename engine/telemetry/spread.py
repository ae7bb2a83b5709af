"""Bytes over time: each slice's bytes spread over its interval, in bins of 10 ms, and coarser ones from
those."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from engine.telemetry.events import ALL_LAYERS, BIN_NS, LEVEL_FACTOR, LINK_BIN, LINK_SAMPLE, Direction, Kind
from engine.telemetry.totals import group_sum

_KEYS = ("link", "direction", "layer", "bin")
_MERGE_AT = 64
MOST_TAKEN = 20_000
"""Bins of one batch: of a message that was on its way for minutes there are as many in every layer. The server stores a
batch in one transaction, and others wait for that."""
LAYER_ROWS = 64
"""Above level 0, neighbouring layers of deeper networks share a row: a thousand layers in every bin are more than a
figure can read or show."""
MAX_BINS = 65_536
"""Of one interval (11 minutes at 10 ms): a longer one is taken to have moved its bytes in its last bins."""


def spread(
    start: np.ndarray, end: np.ndarray, size: np.ndarray, bin_ns: int = BIN_NS
) -> tuple[np.ndarray, ...]:
    """Spread `size[i]` bytes evenly over [start[i], end[i]) ns: `(row, bin, bytes)`, whole bytes, none lost.

    An interval without length gives all its bytes to the bin it lies in.
    """
    end = np.maximum(end, start)
    start = np.maximum(start, end - MAX_BINS * bin_ns)
    first = start // bin_ns
    last = np.maximum((end - 1) // bin_ns, first)
    count = last - first + 1
    row = np.repeat(np.arange(len(start)), count)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    bin_index = first[row] + offset
    # Bytes moved until each bin's end, rounded down; the difference of two of them is what moved inside.
    duration = np.maximum(end - start, 1)[row]
    until = np.minimum((bin_index + 1) * bin_ns, end[row]) - start[row]
    moved = np.floor(size[row] * (until / duration)).astype(np.int64)
    moved = np.where(offset == count[row] - 1, size[row], moved)
    inside = moved - np.where(offset == 0, 0, np.concatenate([[0], moved[:-1]])) if len(row) else moved
    return row, bin_index, inside


def coarsen(bins: np.ndarray) -> np.ndarray:
    """The same LINK_BIN rows one level up (bins LEVEL_FACTOR times as wide)."""
    coarse = bins.copy()
    coarse["bin"] = bins["bin"] // LEVEL_FACTOR
    return merge_bins(coarse)


def layers_per_row(layers: int) -> int:
    """How many neighbouring layers share a row of the bins above level 0, in a network of so many."""
    return max(1, -(-layers // LAYER_ROWS))


def join_layers(bins: np.ndarray, size: int) -> np.ndarray:
    """LINK_BIN rows in which every `size` neighbouring layers are one, named by the first of them."""
    joined = bins.copy()
    own = bins["layer"] >= 0
    joined["layer"][own] = bins["layer"][own] // size * size
    return merge_bins(joined)


def merge_bins(*parts: np.ndarray) -> np.ndarray:
    return group_sum(np.concatenate([np.empty(0, LINK_BIN), *parts]), _KEYS, ("bytes",))


def _bins(
    link: np.ndarray, direction: np.ndarray | int, layer: np.ndarray | int, spreaded: tuple[np.ndarray, ...]
) -> np.ndarray:
    row, bin_index, inside = spreaded
    rows = np.zeros(len(row), LINK_BIN)
    rows["link"] = link[row]
    rows["direction"] = direction if isinstance(direction, int) else direction[row]
    rows["layer"] = layer if isinstance(layer, int) else layer[row]
    rows["bin"] = bin_index
    rows["bytes"] = inside
    return merge_bins(rows[rows["bytes"] != 0])


class LinkBins:
    """Running bins since the last `take`: by layer from events, for the whole link from counter samples."""

    def __init__(self, near: Collection[int] = ()) -> None:
        """What goes to and comes from the parties `near` is on no link."""
        self._near = sorted(near)
        self._parts: list[np.ndarray] = []
        self._rest = np.empty(0, LINK_BIN)
        """What one `take` left to the next."""
        self._last: dict[int, np.ndarray] = {}

    def add_events(self, events: np.ndarray) -> None:
        """Send and receive events belong to the party's first link."""
        moved = events[np.isin(events["kind"], (Kind.SEND, Kind.RECEIVE)) & (events["bytes"] > 0)]
        moved = moved[~np.isin(moved["peer"], self._near)]
        if not len(moved):
            return
        direction = np.where(moved["kind"] == Kind.SEND, Direction.TX, Direction.RX).astype(np.uint8)
        link = np.zeros(len(moved), np.int16)
        self._add(
            _bins(link, direction, moved["layer"], spread(moved["start"], moved["end"], moved["bytes"]))
        )

    def add_moved(self, moved: np.ndarray) -> None:
        """MOVED rows belong to the party's first link, too."""
        if len(moved):
            parts = spread(moved["start"], moved["end"], moved["bytes"])
            self._add(_bins(np.zeros(len(moved), np.int16), moved["direction"], moved["layer"], parts))

    def add_samples(self, samples: np.ndarray) -> None:
        """What a link's counters grew by since its sample before; a counter that fell was reset and counts
        0."""
        for index in np.unique(samples["link"]):
            rows = samples[samples["link"] == index]
            before = self._last.get(int(index), rows[0])
            self._last[int(index)] = rows[-1]
            rows = np.concatenate([np.array([before], LINK_SAMPLE), rows])
            start, end = rows["time"][:-1], rows["time"][1:]
            for direction, column in ((Direction.TX, "tx_bytes"), (Direction.RX, "rx_bytes")):
                grown = np.maximum(np.diff(rows[column]), 0)
                parts = spread(start, end, grown)
                self._add(_bins(rows["link"][1:], int(direction), ALL_LAYERS, parts))

    def waiting(self) -> int:
        """Bins that are left to take, or more: some of them may be one."""
        return len(self._rest) + sum(map(len, self._parts))

    def take(self, most: int | None = MOST_TAKEN) -> np.ndarray:
        """At most so many; None: all."""
        if most is None or len(self._rest) < most:
            parts, self._parts = self._parts, []
            self._rest = merge_bins(self._rest, *parts)
        taken, self._rest = self._rest[:most], self._rest[len(self._rest) if most is None else most :]
        return taken

    def _add(self, bins: np.ndarray) -> None:
        self._parts.append(bins)
        if len(self._parts) >= _MERGE_AT:
            self._parts = [merge_bins(*self._parts)]
