"""What collectives of torch.distributed move, by layer.

They have connections of their own, on which the kernel counts (`sockets.py`): that count is the truth. Whoever issues a
collective knows whose tensors lie in its buffer. What the algorithm moves of a buffer is divided among these layers by
their sizes in it, as far as the count reaches; what is counted beyond that belongs to no layer: headers, and whatever
else torch.distributed sends. Where it sends by other ways than TCP (NVLink, InfiniBand), nothing is counted here, and
no layer is given anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from engine.telemetry.events import Direction
from engine.telemetry.recorder import Recorder
from engine.telemetry.sockets import SocketCounters, connections


class Collectives:
    """Those of one worker. Every method may be called by any thread."""

    def __init__(self, recorder: Recorder, *, within_host: bool) -> None:
        """`within_host`: what goes between workers with one address is on the link, too."""
        self._recorder = recorder
        self._lock = threading.Lock()
        self._counters = SocketCounters(within_host=within_host)
        self._before: set[tuple[int, int]] = set()
        self._connects_later = False
        self._owed: dict[Direction, dict[int, int]] = {direction: {} for direction in Direction}
        """Bytes by layer that collectives have moved, or are about to, and the count did not yet reach."""
        self._begun = False
        self._given = dict.fromkeys(Direction, 0)
        """Bytes of the count that are spoken for: those that layers were given, and what came before the first
        collective."""
        self._last = (0, 0)
        """Start and end of the newest collective."""

    @contextmanager
    def joining(self, *, connects_later: bool) -> Iterator[None]:
        """Around connecting: what is open afterwards and was not before belongs to collectives. `connects_later`: so
        does what is open after the first of them (NCCL)."""
        self._before = connections()
        yield
        with self._lock:
            self._counters.add(connections() - self._before)
            self._connects_later = connects_later

    def begins(self) -> int:
        """A collective is about to be issued: now, in ns on the attempt's clock. What was counted before the first one,
        such as a wrapper's own copy of the parameters, is no layer's."""
        if not self._begun:
            with self._lock:
                self._begun = True
                self._given = dict(zip(Direction, self._counters.read(), strict=True))
        return self._recorder.clock_ns()

    def moved(self, weights: Mapping[int, int], size: int, *, rounds: int, workers: int, start: int) -> None:
        """A collective of so many `workers` on a buffer of `size` bytes, issued at `start`, has ended. Each layer has
        the share in it that its weight has of all `weights`. `rounds`: how often its algorithm sends (n-1)/n of the
        buffer: 2 for a sum that all get, 1 where every worker gives or gets only its own part."""
        whole = sum(weights.values())
        if not whole:
            return
        travels = size * rounds * (workers - 1) // workers
        with self._lock:
            if self._connects_later:
                self._counters.add(connections() - self._before)
                self._connects_later = False
            for owed in self._owed.values():
                for layer, weight in weights.items():
                    owed[layer] = owed.get(layer, 0) + travels * weight // whole
            self._last = (start, self._recorder.clock_ns())
            self._give()

    def settle(self) -> None:
        """The connections are about to end."""
        with self._lock:
            self._give()

    def counted(self) -> tuple[int, int]:
        """Bytes (sent, received) over all its connections so far."""
        with self._lock:
            return self._counters.read()

    def _give(self) -> None:
        """Layers get what they are owed, as far as the count has come: a sender's kernel may still hold some of it."""
        start, end = self._last
        for direction, counted in zip(Direction, self._counters.read(), strict=True):
            owed = self._owed[direction]
            whole = sum(owed.values())
            reached = min(whole, counted - self._given[direction])
            if reached <= 0:
                continue
            for layer, size in owed.items():
                part = size * reached // whole
                if part:
                    owed[layer] -= part
                    self._given[direction] += part
                    self._recorder.moved(layer, direction, start=start, end=end, bytes=part)
