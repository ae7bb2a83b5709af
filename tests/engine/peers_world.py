"""Workers that exchange a few units with one another, without tensors: what may happen next is chosen from outside.

An element is a count of the contributions in it, so that a test sees which were summed, and how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import NamedTuple, Protocol, TypeAlias

from engine.protocol.gathered import Gathered
from engine.protocol.instructions import Add, Advance, GoOn, Instruction, Keep, Put, Send, Summed
from engine.protocol.rounds import Rounds

Element: TypeAlias = Counter[tuple[int, int]]
"""(rank, step) of each contribution in it."""


class Meeting(Protocol):
    """When units leave and are needed."""

    def leaves(self, fragment: int, step: int) -> bool: ...
    def arrives(self, fragment: int, step: int) -> int | None: ...


class EveryStep:
    """All units leave in every step, and are needed for the next."""

    def leaves(self, fragment: int, step: int) -> bool:
        return True

    def arrives(self, fragment: int, step: int) -> int | None:
        return step


class Travelling(NamedTuple):
    source: int
    peer: int
    unit: int
    step: int
    part: int
    content: tuple[Element, ...]


@dataclass
class Worker:
    """Runs steps: a forward pass that needs what has been exchanged, then its part of each unit that leaves."""

    machine: Rounds | Gathered
    step: int = 0
    to_give: list[int] | None = None
    """Units that leave in the backward pass under way; None in front of it."""
    clock: dict[int, int] = field(default_factory=dict)
    memory: dict[tuple[int, int], list[Element]] = field(default_factory=dict)
    """By unit and step: its elements."""
    kept: dict[tuple[int, int, int, int], Travelling] = field(default_factory=dict)
    """By unit, origin, step and part."""
    leaving: list[tuple[Send, tuple[Element, ...]]] = field(default_factory=list)
    """What it has handed on, and what that was then."""


class World:
    """Everything, and what every unit came to."""

    def __init__(
        self,
        machine: Callable[[int], Rounds | Gathered],
        phases: Mapping[int, tuple[int, ...]],
        *,
        workers: int,
        steps: int,
        meeting: Meeting,
        fragments: int,
        random: Random,
    ) -> None:
        """`phases`: how many elements of each unit are summed in each of its phases."""
        self.phases, self.steps, self.random = phases, steps, random
        self.counts = {unit: sum(counts) for unit, counts in phases.items()}
        self.meeting, self.fragments = meeting, fragments
        self.workers = {rank: Worker(machine(rank)) for rank in range(workers)}
        self.travelling: list[Travelling] = []
        self.sums: dict[tuple[int, int, int], list[Element]] = {}
        """By worker, unit and step."""

    def run(self) -> None:
        """Until nothing can happen any more."""
        while moves := self._moves():
            self.random.choice(moves)()

    def _moves(self) -> list[Callable[[], None]]:
        return [
            *(partial(self.arrives, message) for message in self.coming()),
            *(partial(self.left, *one) for one in self.leaving()),
            *(partial(self.works, rank) for rank in self.able()),
        ]

    def coming(self) -> list[Travelling]:
        """What may arrive next: messages are tagged, and may overtake each other."""
        return self.travelling

    def leaving(self) -> list[tuple[int, int]]:
        """What has been handed on: of whom, and which of its messages."""
        return [
            (rank, number) for rank, worker in self.workers.items() for number in range(len(worker.leaving))
        ]

    def able(self) -> list[int]:
        """Who can go on by itself."""
        return [
            rank
            for rank, worker in self.workers.items()
            if worker.to_give or (worker.step < self.steps and self._may_begin(worker))
        ]

    def _may_begin(self, worker: Worker) -> bool:
        due = ((unit, self.meeting.arrives(unit % self.fragments, worker.step - 1)) for unit in self.counts)
        return worker.step == 0 or all(at is None or worker.clock.get(unit, 0) > at for unit, at in due)

    def works(self, rank: int) -> None:
        worker = self.workers[rank]
        if worker.to_give is None:
            leaving = (
                unit for unit in self.counts if self.meeting.leaves(unit % self.fragments, worker.step)
            )
            worker.to_give = list(leaving)
        if worker.to_give:
            unit = worker.to_give.pop(self.random.randrange(len(worker.to_give)))
            own: Element = Counter({(rank, worker.step): 1})
            first = self.phases[unit][0] if isinstance(worker.machine, Rounds) else self.counts[unit]
            later: list[Element] = [Counter()] * (self.counts[unit] - first)  # made of the first phase's sums
            worker.memory[unit, worker.step] = [own] * first + later
            self._carry_out(rank, worker.machine.ready(unit, worker.step))
        if not worker.to_give:
            worker.step, worker.to_give = worker.step + 1, None

    def arrives(self, message: Travelling) -> None:
        self.travelling.remove(message)
        machine = self.workers[message.peer].machine
        if isinstance(machine, Rounds):
            found = machine.arrived(message.unit, message.step, message.part, message.source)
        else:
            found = machine.arrived(message.unit, message.step, message.source)
        self._carry_out(message.peer, found, message)

    def left(self, rank: int, number: int) -> None:
        """What was handed on has left: it must still be what it was."""
        worker = self.workers[rank]
        send, content = worker.leaving.pop(number)
        if isinstance(worker.machine, Rounds):
            assert tuple(worker.memory[send.unit, send.step][send.start : send.stop]) == content
            found = worker.machine.sent(send.unit, send.step)
        else:
            found = []
        self.travelling += [
            Travelling(rank, peer, send.unit, send.step, send.part, content) for peer in send.peers
        ]
        self._carry_out(rank, found)

    def _carry_out(self, rank: int, found: list[Instruction], arrived: Travelling | None = None) -> None:
        worker = self.workers[rank]
        for one in found:
            match one:
                case Send(unit=unit, step=step, start=start, stop=stop):
                    own = worker.memory[unit, step]
                    content = own[start:stop] if isinstance(worker.machine, Rounds) else own
                    worker.leaving.append((one, tuple(content)))
                case Keep(unit, origin, step, part):
                    assert arrived is not None
                    assert (unit, origin, step, part) not in worker.kept
                    worker.kept[unit, origin, step, part] = arrived
                case Add(unit, origin, step, part, start, stop) | Put(unit, origin, step, part, start, stop):
                    came = worker.kept.pop((unit, origin, step, part)) if one.kept else arrived
                    assert came is not None
                    assert len(came.content) == stop - start
                    here = worker.memory[unit, step]
                    sums = [a + b for a, b in zip(here[start:stop], came.content, strict=True)]
                    here[start:stop] = sums if isinstance(one, Add) else came.content
                case GoOn(unit, step, phase):
                    end = sum(self.phases[unit][: phase + 1])
                    here, everybody = (
                        worker.memory[unit, step],
                        dict.fromkeys(((r, step) for r in self.workers), 1),
                    )
                    assert here[:end] == [everybody] * end, "what comes next is made of finished sums"
                    own = Counter({(rank, step): 1})
                    here[end : end + self.phases[unit][phase + 1]] = [own] * self.phases[unit][phase + 1]
                case Summed(unit, step):
                    assert isinstance(worker.machine, Rounds)
                    self._carry_out(rank, worker.machine.summed(unit, step))
                case Advance(unit, clock):
                    assert clock > worker.clock.get(unit, 0), "versions only grow"
                    worker.clock[unit] = clock
                    self.sums[rank, unit, clock - 1] = self._sum(worker, unit, clock - 1)

    def _sum(self, worker: Worker, unit: int, step: int) -> list[Element]:
        found = worker.memory.pop((unit, step))
        if isinstance(worker.machine, Gathered):
            for key in [key for key in worker.kept if (key[0], key[2]) == (unit, step)]:
                content = worker.kept.pop(key).content
                found = [a + b for a, b in zip(found, content, strict=True)]
        return found
