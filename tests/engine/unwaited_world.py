"""Workers that send their updates of a few units to one another and wait for nobody's, without tensors: what may happen
next is chosen from outside.

What a worker holds is a count of the updates in it, so that a test sees which were added, how often, and when.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import NamedTuple

from engine.protocol.instructions import Add, Advance, Drop, Instruction, Send
from engine.protocol.messages import Message
from engine.protocol.peers import Peers

AHEAD = 1


class Travelling(NamedTuple):
    kind: Message
    source: int
    peer: int
    unit: int
    step: int
    version: int = 0


@dataclass
class Worker:
    """Runs steps: a forward pass that begins with what has come, then an update of each unit in any order."""

    machine: Peers
    step: int = 0
    to_give: list[int] = field(default_factory=list)
    clock: Counter[int] = field(default_factory=Counter)
    held: dict[int, Counter[tuple[int, int]]] = field(default_factory=lambda: defaultdict(Counter))
    """By unit: (rank, step) of each update that its parameters have."""
    coming: dict[int, Counter[tuple[int, int]]] = field(default_factory=lambda: defaultdict(Counter))
    """Those that wait to be added to them."""
    leaving: list[Travelling] = field(default_factory=list)
    """What it has handed on."""
    ended: bool = False
    """It contributes nothing more."""
    done: bool = False
    alive: bool = True


class World:
    """Everything."""

    def __init__(self, counts: Mapping[int, int], *, workers: int, steps: int, random: Random) -> None:
        self.units, self.steps, self.random = list(counts), steps, random
        self.workers = {
            rank: Worker(Peers(rank=rank, workers=workers, counts=counts, ahead=AHEAD))
            for rank in range(workers)
        }
        self.travelling: list[Travelling] = []
        self.begun: list[tuple[int, int]] = []
        """(rank, step)."""
        self.computed_on: dict[tuple[int, int, int], int] = {}
        """By rank, unit and step: how many updates were in what the update was computed on."""

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
        """What may arrive next: of one kind and unit, messages between two parties do not overtake each other; the word
        that a worker was lost comes after all that had arrived from it."""
        first: dict[tuple[Message, int, int, int], Travelling] = {}
        for message in self.travelling:
            first.setdefault((message.kind, message.source, message.peer, message.unit), message)
        between = Counter((message.source, message.peer) for message in self.travelling)
        return [
            each
            for each in first.values()
            if each.kind != Message.LOST or between[each.source, each.peer] == 1
        ]

    def leaving(self) -> list[tuple[int, int]]:
        """What has been handed on: of whom, and which of its messages; those of one unit for one peer in order."""
        found = []
        for rank, worker in self.workers.items():
            seen: set[tuple[Message, int, int]] = set()
            for number, message in enumerate(worker.leaving):
                key = message.kind, message.peer, message.unit
                if key not in seen:
                    found.append((rank, number))
                seen.add(key)
        return found

    def able(self) -> list[int]:
        """Who can go on by itself."""
        return [
            rank
            for rank, worker in self.workers.items()
            if worker.alive and not worker.done and (worker.to_give or self._has(worker, worker.step))
        ]

    def _has(self, worker: Worker, step: int) -> bool:
        clock = step + 1 if worker.ended else step
        return all(worker.clock[unit] >= clock for unit in self.units)

    def works(self, rank: int) -> None:
        worker = self.workers[rank]
        if worker.to_give:
            unit = worker.to_give.pop(self.random.randrange(len(worker.to_give)))
            self.computed_on[rank, unit, worker.step] = worker.held[unit].total()
            worker.held[unit][rank, worker.step] += 1
            found = worker.machine.ready(unit, worker.step)
            if not worker.to_give:
                worker.step += 1
            self._carry_out(rank, found)
        elif worker.ended:
            self._take(worker)
            worker.done = True
        elif worker.step == self.steps:
            worker.ended = True
            self._carry_out(rank, worker.machine.finished(self.steps))
        else:
            self._take(worker)
            self.begun.append((rank, worker.step))
            worker.to_give = list(self.units)

    def _take(self, worker: Worker) -> None:
        for unit in self.units:
            coming = worker.coming.pop(unit, Counter())
            before = worker.held[unit].total()
            parts = worker.machine.taken(unit)
            assert {part[:2] for part in parts} == set(coming)
            for number, part in enumerate(parts):
                assert part.staleness == max(
                    0, before + number - self.computed_on[part.rank, unit, part.step]
                )
            worker.held[unit].update(coming)

    def left(self, rank: int, number: int) -> None:
        """What was handed on has left; for a worker that is lost nothing does."""
        worker = self.workers[rank]
        message = worker.leaving.pop(number)
        if not self.workers[message.peer].alive:
            return
        self.travelling.append(message)
        if message.kind == Message.UPDATE:
            self._carry_out(rank, worker.machine.sent(message.unit, message.peer))

    def arrives(self, message: Travelling) -> None:
        self.travelling.remove(message)
        kind, source, peer, unit, step, _ = message
        machine = self.workers[peer].machine
        if kind == Message.LOST:
            self._carry_out(peer, machine.lost(source))
        elif kind == Message.FINISH:
            self._carry_out(peer, machine.peer_finished(unit, source, step + 1))
        else:
            self._carry_out(peer, machine.arrived(unit, step, source), message)

    def lose(self, rank: int) -> None:
        """A worker dies: of what is on its way some of the end is lost, and what waits for it never leaves."""
        lost = self.workers[rank]
        lost.alive, lost.leaving = False, []
        self.travelling = [each for each in self.travelling if each.peer != rank]
        for peer, worker in self.workers.items():
            worker.leaving = [each for each in worker.leaving if each.peer != rank]
            if not worker.alive:
                continue
            under_way = [each for each in self.travelling if (each.source, each.peer) == (rank, peer)]
            for each in under_way[self.random.randint(0, len(under_way)) :]:
                self.travelling.remove(each)
            self.travelling.append(Travelling(Message.LOST, rank, peer, -1, 0))

    def _carry_out(self, rank: int, found: Sequence[Instruction], arrived: Travelling | None = None) -> None:
        worker = self.workers[rank]
        for one in found:
            match one:
                case Send(peers, kind, unit, step, version=version):
                    worker.leaving += [Travelling(kind, rank, peer, unit, step, version) for peer in peers]
                case Add(unit, origin, step):
                    assert arrived is not None
                    worker.coming[unit][origin, step] += 1
                    self._carry_out(rank, worker.machine.added(unit, step, origin, arrived.version))
                case Advance(unit, clock):
                    assert clock > worker.clock[unit], "versions only grow"
                    worker.clock[unit] = clock
                case Drop():
                    raise AssertionError("nothing comes of a lost worker after the word of its loss")
