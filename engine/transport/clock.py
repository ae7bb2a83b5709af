"""The attempt's clock: integer nanoseconds since the attempt's epoch, monotonic, aligned with party 0's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How far this clock was from party 0's, and how sure that is."""

    offset_ns: int
    """What had to be added to this clock."""
    residual_ns: int
    """Largest possible error of the offset: half of the fastest round trip."""


class AttemptClock:
    """Nanoseconds since `epoch_ns`, a value of this machine's monotonic clock (default: now).

    Processes of one machine that get the same epoch agree exactly; others are aligned by pings.
    """

    __slots__ = ("_epoch_ns",)

    def __init__(self, epoch_ns: int | None = None) -> None:
        self._epoch_ns = time.monotonic_ns() if epoch_ns is None else epoch_ns

    @property
    def epoch_ns(self) -> int:
        """The epoch on this machine's monotonic clock."""
        return self._epoch_ns

    def now_ns(self) -> int:
        """Time since the epoch."""
        return time.monotonic_ns() - self._epoch_ns

    def align(self, samples: Sequence[tuple[int, int, int]]) -> Alignment:
        """Moves this clock onto a peer's, by samples of (sent here, seen there, answer received here).

        The sample with the smallest round trip decides (Cristian's method). A clock that is already within
        the sample's own uncertainty is left alone: on one machine zero is better knowledge than any ping.
        """
        if not samples:
            raise ValueError("align needs at least one ping sample")
        sent, seen, received = min(samples, key=lambda sample: sample[2] - sample[0])
        residual_ns = (received - sent + 1) // 2
        offset_ns = seen - (sent + received) // 2
        if abs(offset_ns) <= residual_ns:
            offset_ns = 0
        self._epoch_ns -= offset_ns
        return Alignment(offset_ns=offset_ns, residual_ns=residual_ns)
