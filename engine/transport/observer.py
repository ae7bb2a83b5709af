"""What telemetry may watch: one call per message and side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.transport.clock import AttemptClock
from engine.transport.counters import Counters
from engine.transport.message import Header


class Observer(Protocol):
    """Called in the I/O thread (or the sender's, for local messages): record and return, do not block.

    Once for each message and side; a message that was interrupted is told run by run, each with the bytes of its
    payload that passed in it, so that no time is told in which something else was on the wire.

    Times are the attempt clock's: `start_ns` when the first byte was given to or taken from the kernel,
    `end_ns` when the last one was. `wire` is False for messages inside the process.
    """

    def sent(
        self, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int, *, wire: bool
    ) -> None:
        """A message has left."""

    def received(self, header: Header, peer: int, start_ns: int, end_ns: int, *, wire: bool) -> None:
        """A message has arrived, before it is handled."""


class NoObserver:
    """Watches nothing."""

    def sent(
        self, header: Header, peer: int, queued_ns: int, start_ns: int, end_ns: int, *, wire: bool
    ) -> None:
        """Ignored."""

    def received(self, header: Header, peer: int, start_ns: int, end_ns: int, *, wire: bool) -> None:
        """Ignored."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What every connection of an endpoint reports to."""

    counters: Counters
    clock: AttemptClock
    observer: Observer
