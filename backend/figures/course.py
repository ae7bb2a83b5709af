"""A job's whole course: what an attempt that goes on from a checkpoint rests on counts as its own.

The course leads from the first attempt over those whose steps were kept: of each up to the checkpoint from which the
next one went on. What was recorded of later steps was run again, and the time between two attempts was not trained, so
neither counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backend.figures.link_bytes import apart
from backend.figures.source import Source
from engine.telemetry.events import ALL_LAYERS, BIN_NS, LEVEL_FACTOR, LEVELS, Direction

MAX_BINS = 2_000
"""Of one link, read to know when which bytes had left: coarser bins for longer jobs."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One attempt's part of a course. What is counted `until` something counts from the course's first step."""

    source: Source
    until: int | None
    """It has the steps before this one. None: it is the last."""
    before: Sequence[Stretch]

    def has(self, rows: np.ndarray) -> np.ndarray:
        """(n) whether rows with a `step` are of steps that it has."""
        return np.full(len(rows), True) if self.until is None else rows["step"] < self.until

    def has_measured(self, rows: np.ndarray) -> np.ndarray:
        """(n) likewise of what was measured after so many steps."""
        return np.full(len(rows), True) if self.until is None else rows["step"] <= self.until

    def samples_until(self, steps: np.ndarray) -> np.ndarray:
        """(n) samples of the steps up to these."""
        return sum(one._samples for one in self.before) + self.source.samples_until(steps)

    def seconds_until(self, at_ns: np.ndarray) -> np.ndarray:
        """(n) trained until these times on the attempt's clock."""
        before = sum(one._end_ns - one.source.trained_from() for one in self.before)
        return (at_ns - self.source.trained_from() + before) / 1e9

    def bytes_until(self, at_ns: np.ndarray) -> np.ndarray:
        """(n) that all links had sent at these times; NaN where nobody counted any."""
        return sum(one._bytes for one in self.before) + bytes_until(self.source, at_ns)

    @cached_property
    def _samples(self) -> float:
        """All of it; so are the next ones. Each is read once, however many stretches follow."""
        assert self.until is not None
        return float(self.source.samples_until(np.array([self.until - 1]))[0])

    @cached_property
    def _end_ns(self) -> int:
        assert self.until is not None
        return max(self.source.ended_until(self.until - 1), self.source.trained_from())

    @cached_property
    def _bytes(self) -> float:
        return float(bytes_until(self.source, np.array([self._end_ns]))[0])


def course(source: Source) -> list[Stretch]:
    """Of the attempt that `source` reads, the first stretch first."""
    found: list[Stretch] = []
    for one, until in (*reversed(source.earlier()), (source, None)):
        found.append(Stretch(source=one, until=until, before=tuple(found)))
    return found


def begun_step(stretches: Sequence[Stretch]) -> int:
    """After so many steps of another job the course begins: 0 where the job began anew."""
    return stretches[0].source.resumed_step() or 0


def bytes_until(source: Source, at_ns: np.ndarray) -> np.ndarray:
    """(n) that all links of one attempt had sent at these times; NaN where nobody counted any. What the whole machine
    sent is not the job's."""
    total = np.zeros(len(at_ns))
    counted = False
    for link in apart(source.links()):
        ends = source.bin_range(link, 0)
        if ends is None:
            continue
        level = next(
            (at for at in range(LEVELS) if (ends[1] - ends[0]) // LEVEL_FACTOR**at <= MAX_BINS), LEVELS - 1
        )
        scale = LEVEL_FACTOR**level
        first, last = ends[0] // scale, ends[1] // scale
        rows = source.bins(link, level, first, last, Direction.TX)
        sent = np.zeros((2, last - first + 1))
        np.add.at(sent, ((rows["layer"] != ALL_LAYERS).astype(int), rows["bin"] - first), rows["bytes"])
        counted = counted or bool(sent.any())
        until = np.concatenate([[0.0], np.cumsum(sent, axis=1).max(axis=0)])
        edges = np.arange(first, last + 2) * float(BIN_NS * scale)
        total += np.interp(at_ns, edges, until)
    return total if counted else np.full(len(at_ns), np.nan)
