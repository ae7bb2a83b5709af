"""The arrows of a trace: from each message's sending to its receiving, and from the message that ended a wait to it.

Which belong together is the rule of `backend/figures/why.py`: both ends of a message know its step, its unit and when
it was queued, and a wait ends with the last message that its party received for its unit, or for its layer where it has
none. Events come in the order of their start, so that only what is still going on has to be held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.telemetry.events import NONE, Kind, Track

MASK = 2**53 - 1
"""Ids are numbers that JavaScript can tell apart."""


class Ends(NamedTuple):
    """One event, as far as arrows are about it."""

    party: int
    step: int
    layer: int
    unit: int
    kind: int
    track: int
    peer: int
    queued: int
    start: int
    end: int
    thread: int


class Flows:
    """Of one trace."""

    def __init__(self) -> None:
        self._receives: dict[int, list[Ends]] = {}
        """By party, those that may end a wait: they have not ended before the newest event began."""
        self._waits: list[tuple[Ends, Ends | None]] = []
        """Each with the last message so far that ended within it."""

    def of(self, event: Ends) -> Iterator[str]:
        """The arrows' ends that are known with this event."""
        yield from self._settle(event.start)
        if event.kind == Kind.SEND and event.peer != NONE:
            yield _end("s", "message", _message(event, event.party, event.peer), event, event.start)
        elif event.kind == Kind.RECEIVE and event.peer != NONE:
            middle = (event.start + event.end) // 2
            yield _end("f", "message", _message(event, event.peer, event.party), event, middle)
            going = [one for one in self._receives.get(event.party, ()) if one.end >= event.start]
            self._receives[event.party] = [*going, event]
            self._waits = [(wait, _later(wait, message, event)) for wait, message in self._waits]
        elif event.kind == Kind.WAIT and event.track == Track.COMPUTE:
            message = None
            for one in self._receives.get(event.party, ()):
                message = _later(event, message, one)
            self._waits.append((event, message))

    def rest(self) -> Iterator[str]:
        """Those that are known where no further event comes."""
        return self._settle(None)

    def _settle(self, now: int | None) -> Iterator[str]:
        """Of the waits that are over: no message that is yet to come can have ended one."""
        if not self._waits:
            return
        over = [pair for pair in self._waits if now is None or pair[0].end < now]
        if over:
            self._waits = [pair for pair in self._waits if now is not None and pair[0].end >= now]
        for wait, message in over:
            if message is not None:
                number = hash((wait.party, wait.start, wait.layer, wait.unit)) & MASK
                inside = (max(wait.start, message.start) + wait.end) // 2
                yield _end("s", "ends the wait", number, message, message.start)
                yield _end("f", "ends the wait", number, wait, inside)


def _message(event: Ends, sender: int, receiver: int) -> int:
    """The same at both ends."""
    return hash((event.step, event.unit, event.queued, sender, receiver)) & MASK


def _later(wait: Ends, message: Ends | None, other: Ends) -> Ends | None:
    """The one of both that ended the wait."""
    ours = other.party == wait.party and wait.start < other.end <= wait.end
    same = other.layer == wait.layer if wait.unit == NONE else other.unit == wait.unit
    return other if ours and same and (message is None or other.end >= message.end) else message


def _end(phase: str, name: str, number: int, event: Ends, at: int) -> str:
    """`s` begins an arrow at the event that lies there, `f` ends one."""
    return (
        f'{{"ph":"{phase}","bp":"e","cat":"flow","name":"{name}","id":{number},'
        f'"pid":{event.party},"tid":{event.thread},"ts":{at / 1e3}}}'
    )
