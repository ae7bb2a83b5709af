"""Told: what whoever cares for a model's memory says of what it does, and to whom.

A worker's `Recording` makes events of it. Where nobody wants to know, `Untold` is told.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from engine.telemetry.events import NONE, Kind
from engine.telemetry.span_clock import Mark


@dataclass(kw_only=True)
class Again:
    """A second forward pass."""

    bytes: int = 0
    """What it has saved for backward."""


@dataclass(frozen=True, kw_only=True)
class Moving:
    """Saved bytes that leave for a second tier of memory, and come back."""

    step: int
    layer: int
    """That had been reached when they were saved."""
    bytes: int
    queued_ns: int
    """When they were to leave."""


class Told(Protocol):
    """Who is told."""

    transit: Transit

    def now_ns(self) -> int:
        """The host's time."""
        ...

    def mark(self) -> Mark:
        """Now, in what the calling thread issues."""
        ...

    def recomputing(self, layer: int) -> AbstractContextManager[Again]:
        """Around computing the forward pass of a block that begins with `layer` again, within backward."""
        ...

    def stays(self, layer: int | None, count: int) -> None:
        """In this forward pass so many more bytes of `layer` stay in memory for backward. None: of the layer that
        forward has reached."""
        ...

    def leaves(self, count: int) -> Moving:
        """So many bytes that were saved now are about to leave."""
        ...

    def swapped(self, kind: Kind, moving: Moving, queued_ns: int, start: Mark, end: Mark) -> None:
        """They left, or came back; said by any thread."""
        ...

    def awaiting(self, moving: Moving) -> AbstractContextManager[None]:
        """Around waiting for what is to come back."""
        ...


class Transit:
    """Bytes on their way between two tiers of memory, either way: they are still in the one, or in it already. Any
    thread may call it, but one alone `until`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = 0
        self._moving: deque[tuple[Callable[[], bool], int]] = deque()

    def begin(self, count: int) -> None:
        """So many bytes move until `end`."""
        with self._lock:
            self._counted += count

    def end(self, count: int) -> None:
        """They have moved."""
        with self._lock:
            self._counted -= count

    def until(self, done: Callable[[], bool], count: int) -> None:
        """So many bytes move until `done()`."""
        while self._moving and self._moving[0][0]():
            self._moving.popleft()
        self._moving.append((done, count))

    def bytes(self) -> int:
        """Now."""
        return self._counted + sum(count for done, count in self._moving.copy() if not done())


class Untold:
    """Nobody wants to know."""

    def __init__(self) -> None:
        self.transit = Transit()
        self.now_ns = time.monotonic_ns
        self.mark: Callable[[], Mark] = time.monotonic_ns

    @contextmanager
    def recomputing(self, layer: int) -> Iterator[Again]:
        yield Again()

    def stays(self, layer: int | None, count: int) -> None: ...

    def leaves(self, count: int) -> Moving:
        return Moving(step=NONE, layer=NONE, bytes=count, queued_ns=0)

    def swapped(self, kind: Kind, moving: Moving, queued_ns: int, start: Mark, end: Mark) -> None: ...

    @contextmanager
    def awaiting(self, moving: Moving) -> Iterator[None]:
        yield
