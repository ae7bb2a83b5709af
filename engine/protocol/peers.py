"""Peers: one worker's side of an exchange without a common point. Each update of a unit goes to every other worker,
which adds it to its own parameters when it next may.

Events: an own update is ready, a message has left, one has come and has been added, what was added has been taken into
the parameters, this worker or a peer ends, a peer is lost. Nobody waits for what others send. A worker waits only where
more than `ahead` of its own updates of a unit have not left for some peer: a link that is always too slow would fill
memory else. When it ends it gets, besides, all that the others have sent, so that all end with the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Advance, Content, Drop, Instruction, Part, Send
from engine.protocol.messages import Message

AHEAD = 4
"""Updates of a unit that may wait to leave for one peer while the worker goes on. Chosen so that a link that is late
for a step holds nobody up, and memory stays a few messages; not tuned."""


@dataclass(kw_only=True)
class _Unit:
    count: int
    """Elements."""
    given: int = 0
    """Updates of this worker."""
    waiting: dict[int, int] = field(default_factory=dict)
    """By peer: those that have not left for it."""
    came: dict[int, int] = field(default_factory=dict)
    """By peer: updates that have come."""
    added: dict[int, int] = field(default_factory=dict)
    """By peer: those of them that the driver has added."""
    held: int = 0
    """Updates in the parameters here, this worker's and others'."""
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    """Updates that have been added and are not in the parameters yet: peer, its step, how many updates were in the
    parameters that it was computed on."""
    ends: dict[int, int] = field(default_factory=dict)
    """By peer that has said so: how many updates it sends."""
    clock: int = 0


class Peers:
    """One worker's. Every method answers what the driver has to do, in order."""

    def __init__(self, *, rank: int, workers: int, counts: Mapping[int, int], ahead: int = AHEAD) -> None:
        """`counts`: elements of each unit."""
        self._peers = [(rank + distance) % workers for distance in range(1, workers)]
        """Those that are alive. Each worker begins with another one, so that they do not all meet at one."""
        self._ahead = ahead
        self._clock: int | None = None
        """How many steps this worker has contributed, when it contributes nothing more."""
        self._units = {index: _Unit(count=count) for index, count in counts.items()}
        for unit in self._units.values():
            for of_peer in (unit.waiting, unit.came, unit.added):
                of_peer.update(dict.fromkeys(self._peers, 0))

    def ready(self, index: int, step: int) -> list[Instruction]:
        """This worker's update of the unit is there."""
        unit = self._units[index]
        unit.given, computed_on = step + 1, unit.held
        unit.held += 1
        for peer in self._peers:
            unit.waiting[peer] += 1
        sends = self._to_all(Message.UPDATE, index, step, Content.GRADIENT, unit.count, computed_on)
        return [*sends, *self._go_on(index)]

    def sent(self, index: int, peer: int) -> list[Instruction]:
        """One of the unit's updates has left for `peer`."""
        self._units[index].waiting[peer] -= 1
        return self._go_on(index)

    def arrived(self, index: int, step: int, origin: int) -> list[Instruction]:
        """A peer's update has come. Raises OutOfStepError for one that is not the peer's next."""
        unit = self._units[index]
        if origin not in self._peers:
            return [Drop(index, origin, step, f"worker {origin} was lost")]
        if step != unit.came[origin]:
            raise OutOfStepError(
                f"worker {origin} sent its update {step} of unit {index}, of which {unit.came[origin]} have come"
            )
        unit.came[origin] += 1
        return [Add(index, origin, step, stop=unit.count)]

    def added(self, index: int, step: int, origin: int, version: int) -> list[Instruction]:
        """The driver has carried that out. `version`: what came with the update."""
        unit = self._units[index]
        unit.added[origin] += 1
        unit.waits.append((origin, step, version))
        return self._go_on(index)

    def taken(self, index: int) -> list[Part]:
        """What had been added is in the parameters now. Answers what it was. An update's staleness is how many more
        updates are in front of it here than were in the parameters that it was computed on, if any: each worker has
        them in an order of its own."""
        unit, found = self._units[index], []
        for origin, step, version in unit.waits:
            found.append(Part(origin, step, max(0, unit.held - version)))
            unit.held += 1
        unit.waits = []
        return found

    def finished(self, clock: int) -> list[Instruction]:
        """This worker has contributed `clock` steps, and contributes nothing more."""
        self._clock = clock
        sends = (self._to_all(Message.FINISH, index, clock - 1) for index in self._units)
        return [*(send for found in sends for send in found), *self._all_go_on(self._units)]

    def peer_finished(self, index: int, origin: int, clock: int) -> list[Instruction]:
        """A peer contributes nothing to the unit after its step `clock` - 1."""
        self._units[index].ends[origin] = clock
        return self._go_on(index)

    def lost(self, peer: int) -> list[Instruction]:
        """A peer is gone. What it has sent stays where it was added; what waits for it never leaves."""
        if peer in self._peers:
            self._peers.remove(peer)
        return self._all_go_on(self._units)

    def contributed(self) -> dict[int, int]:
        """By peer, lost ones as well: how many of its steps have come, of any unit."""
        peers = next(iter(self._units.values())).came if self._units else {}
        return {peer: max(unit.came[peer] for unit in self._units.values()) for peer in peers}

    def versions(self) -> list[int]:
        """Of every unit: updates in the parameters here, this worker's and others'."""
        return [unit.held for unit in self._units.values()]

    def awaited(self, index: int) -> list[int]:
        """The peers without whom the unit does not go on."""
        unit = self._units[index]
        if self._clock is not None and unit.clock == self._clock:
            return [peer for peer in self._peers if not self._has_all_of(unit, peer)]
        return [peer for peer in self._peers if unit.waiting[peer] > self._ahead]

    def _to_all(
        self,
        kind: Message,
        index: int,
        step: int,
        content: Content = Content.NOTHING,
        stop: int = 0,
        version: int = 0,
    ) -> list[Instruction]:
        if not self._peers:
            return []
        return [Send(tuple(self._peers), kind, index, step, content, stop=stop, version=version)]

    def _all_go_on(self, indices: Iterable[int]) -> list[Instruction]:
        return [instruction for index in indices for instruction in self._go_on(index)]

    def _go_on(self, index: int) -> list[Instruction]:
        """What the unit holds now, where that is more than before."""
        unit, clock = self._units[index], self._units[index].clock
        if all(unit.waiting[peer] <= self._ahead for peer in self._peers):
            clock = max(clock, unit.given)
        if self._clock == clock and all(self._has_all_of(unit, peer) for peer in self._peers):
            clock += 1
        if clock == unit.clock:
            return []
        unit.clock = clock
        return [Advance(index, clock)]

    def _has_all_of(self, unit: _Unit, peer: int) -> bool:
        return unit.ends.get(peer) == unit.added[peer]
