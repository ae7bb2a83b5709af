"""Which stretch of time a figure of bins shows, and at which level: the finest that the width can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from backend.figures.facts import LinkFacts
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.window import choose_window
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS

PIXELS_PER_BIN = 2
MAX_BINS = 170_000
"""Rows that a figure reads, of all links."""


@dataclass(frozen=True, kw_only=True)
class BinWindow:
    """A stretch of one attempt's clock, in bins of one level."""

    origin_ns: int
    """The axis counts from here."""
    from_ns: int
    to_ns: int
    level: int
    step: int | None
    first_bin: int
    """Of everything that was recorded, at `level`; as is last_bin."""
    last_bin: int
    margins: int = 1
    """Screen widths that are covered to the left and to the right of what is visible."""

    @property
    def bin_ns(self) -> int:
        return BIN_NS * LEVEL_FACTOR**self.level

    @property
    def covered_bins(self) -> tuple[int, int]:
        """First and last bin of what is visible and its margins, as far as there is anything."""
        width = self.margins * (self.to_ns - self.from_ns)
        first = max((self.from_ns - width) // self.bin_ns, self.first_bin)
        last = min((self.to_ns + width) // self.bin_ns, self.last_bin)
        return first, max(last, first)

    @property
    def visible_s(self) -> list[float]:
        """Edges of what is visible, on the axis."""
        return [(self.from_ns - self.origin_ns) / 1e9, (self.to_ns - self.origin_ns) / 1e9]

    @property
    def meta(self) -> dict[str, Any]:
        """For the page: what is shown, so that it can ask for more."""
        first, last = self.covered_bins
        return {
            "origin_ns": self.origin_ns,
            "from_ns": self.from_ns,
            "to_ns": self.to_ns,
            "covered_ns": [first * self.bin_ns, (last + 1) * self.bin_ns],
            "step": self.step,
            "bin_ns": self.bin_ns,
        }


def level_for(length_ns: int, width: int) -> int:
    """The finest level at which `length_ns` has no more bins than `width` pixels can show."""
    for level in range(LEVELS):
        if length_ns / (BIN_NS * LEVEL_FACTOR**level) <= width / PIXELS_PER_BIN:
            return level
    return LEVELS - 1


def bin_window(source: Source, links: Sequence[LinkFacts], request: FigureRequest) -> BinWindow | None:
    """The window of a request: what it names, else as much of the run's end as fits at 10 ms. None where no
    link has moved anything."""
    ranges = [found for link in links if (found := source.bin_range(link, 0))]
    if not ranges:
        return None
    start = min(first for first, _ in ranges) * BIN_NS
    end = (max(last for _, last in ranges) + 1) * BIN_NS
    rows = source.step_rows(request.step or 0, (request.to_step or request.step or 0) + 1)
    window = choose_window(request, rows, request.step)
    if window is None:
        # What comes before is getting to know one another, what follows evaluation and leave-taking.
        since, until = max(start, source.trained_from()), min(end, source.trained_until())
        if until <= since:
            since, until = start, end
        shown = min(until - since, request.width // PIXELS_PER_BIN * BIN_NS)
        origin, seen, step = 0, (until - shown, until), None
    else:
        origin, seen, step = window.origin_ns, (window.from_ns, window.to_ns), window.step
    level = level_for(seen[1] - seen[0], request.width)
    wide = BIN_NS * LEVEL_FACTOR**level
    whole = BinWindow(
        origin_ns=origin,
        from_ns=seen[0],
        to_ns=seen[1],
        level=level,
        step=step,
        first_bin=start // wide,
        last_bin=(end - 1) // wide,
    )
    return _readable(source, links, whole)


def within(window: BinWindow, values: int, most: int) -> BinWindow:
    """The window without what lies beside what is visible, where `values` in each bin come to more than `most`: a
    browser keeps several drawings of what comes live as garbage."""
    first, last = window.covered_bins
    return window if (last - first + 1) * values <= most else replace(window, margins=0)


def _readable(source: Source, links: Sequence[LinkFacts], window: BinWindow) -> BinWindow:
    """The same stretch in at most MAX_BINS rows: first without what lies beside it, then in wider bins. (Deep
    networks have hundreds of layers' bytes in each.)"""
    while window.level < LEVELS - 1 and not _is_readable(source, links, window):
        narrower = replace(window, margins=0)
        if window.margins and narrower.covered_bins != window.covered_bins:
            window = narrower
            continue
        window = replace(
            window,
            margins=1,
            level=window.level + 1,
            first_bin=window.first_bin // LEVEL_FACTOR,
            last_bin=window.last_bin // LEVEL_FACTOR,
        )
    return window


def _is_readable(source: Source, links: Sequence[LinkFacts], window: BinWindow) -> bool:
    left = MAX_BINS
    for link in links:
        left -= source.count_bins(link, window.level, *window.covered_bins, left + 1)
        if left < 0:
            return False
    return True


def neighbours(layers: int, most: int, size: int = 1) -> list[range]:
    """At most `most` ranges of neighbouring layers, each a multiple of `size` layers long but for the last."""
    rows = -(-layers // size)
    if not rows:
        return []
    edges = np.unique(np.linspace(0, rows, min(rows, most) + 1).round().astype(int)) * size
    edges[-1] = layers
    return [range(start, stop) for start, stop in pairwise(edges.tolist())]
