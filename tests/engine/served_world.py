"""Workers and the homes of a few units on several servers, without tensors: what happens next is chosen from outside.

Each server hears of a worker's loss, and of its return, in an event of its own: one may go on without a worker, or with
it again, long before another one knows.

Sums are lists of the contributions in them, so that a test sees which were applied, how often, and together with which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import NamedTuple

from engine.consistency.policy import Policy
from engine.protocol.home import Home, Returns
from engine.protocol.instructions import Add, Advance, Drop, Instruction, Keep, Put, Send, Update
from engine.protocol.messages import Message
from engine.protocol.served import Served, ServedUnit
from tests.engine.peers_world import EveryStep, Meeting

FIRST_SERVER = 100
"""Servers are parties from here on, workers from 0."""
SERVERS = 2
NO_UNIT = -1


class Given(NamedTuple):
    """One worker's contribution to one unit."""

    unit: int
    rank: int
    step: int
    life: int


class News(NamedTuple):
    """What a server has not heard yet."""

    server: int
    rank: int
    life: int
    """Of a return: the life that begins."""
    returned: bool


class Travelling(NamedTuple):
    kind: Message
    source: int
    peer: int
    unit: int
    step: int
    version: int
    life: int
    """Which of the worker's lives it belongs to."""


@dataclass
class Worker:
    """Runs steps: a forward pass that needs every unit, then a push of each in any order."""

    machine: Served
    life: int = 0
    step: int = 0
    to_push: list[int] = field(default_factory=list)
    clock: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By unit: what the last answer was for."""
    came: dict[int, int] = field(default_factory=dict)
    """By unit: version of the last answer."""
    done: bool = False
    alive: bool = True
    welcomes: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Of one that has returned, by server: the step from which on it may contribute there, and whether nobody else does
    any more."""

    @property
    def here(self) -> bool:
        """Whether it takes part: one that has returned does when all servers have welcomed it."""
        return self.alive and (self.life == 0 or len(self.welcomes) == SERVERS)


class World:
    """Everything, and a log of what was applied."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        *,
        workers: int,
        units: int,
        steps: int,
        returns: Returns,
        rank_order: bool,
        random: Random,
        meeting: Meeting | None = None,
        fragments: int = 1,
    ) -> None:
        """`meeting`: when units leave and are needed, layer by layer in so many `fragments`; where left out, in every
        step."""
        self.policy = policy()
        self.meeting, self.fragments = meeting or EveryStep(), fragments
        self.steps = steps
        self.random = random
        self.units = {
            index: ServedUnit(f"layer{index // 2}", (index + 1,), FIRST_SERVER + index % SERVERS, returns)
            for index in range(units)
        }
        self.homes = {
            index: Home(
                index, *unit.phases, workers=workers, policy=policy(), returns=returns, rank_order=rank_order
            )
            for index, unit in self.units.items()
        }
        self.workers = {rank: Worker(Served(self.units)) for rank in range(workers)}
        self.travelling: list[Travelling] = []
        self.news: list[News] = []
        self._known = {(server, rank): 0 for server in self.servers for rank in range(workers)}
        """By server and worker: in which life the server knows it."""
        self.kept: set[Given] = set()
        self.sums: dict[int, list[Given]] = defaultdict(list)
        self.updates: dict[int, list[list[Given]]] = defaultdict(list)
        """By unit: what each of its updates consisted of."""
        self.dropped: dict[Given, str] = {}
        self.sent: list[Given] = []
        self.computed_on: dict[Given, int] = {}
        """Version of its unit that each contribution was computed on."""
        self.named: dict[int, list[list[tuple[int, int, int]]]] = defaultdict(list)
        """By unit: rank, step and staleness of what each of its updates says that it consists of."""
        self.rates: dict[int, list[float]] = defaultdict(list)
        """By unit: what the learning rate of each of its updates is multiplied by."""
        self.joined: list[tuple[int, int, bool]] = []
        """(rank, the step that it joined at, whether nobody contributed any more)."""
        self.begun: list[tuple[int, int, dict[int, int]]] = []
        """(rank, step, by unit the version that it computes on)."""

    @property
    def servers(self) -> range:
        return range(FIRST_SERVER, FIRST_SERVER + SERVERS)

    def run(self, happens: Callable[[World], None] = lambda world: None) -> None:
        """Until nothing can happen any more; `happens` before each event."""
        while moves := self._moves():
            happens(self)
            self.random.choice(moves)()

    def coming(self) -> list[Travelling]:
        """What may arrive next: messages of one unit between two parties do not overtake each other."""
        first: dict[tuple[int, int, int], Travelling] = {}
        for message in self.travelling:
            first.setdefault((message.source, message.peer, message.unit), message)
        return list(first.values())

    def able(self) -> list[int]:
        """Who can go on by itself."""
        return [
            rank
            for rank, worker in self.workers.items()
            if worker.alive and not worker.done and (worker.to_push or self._may_begin(worker))
        ]

    def leaving(self) -> list[tuple[int, int]]:
        """What is handed on leaves at once."""
        return []

    def lose(self, rank: int) -> None:
        """A worker dies, and servers will hear of it. What it has sent may still arrive, and even after its return."""
        self.workers[rank].alive = False
        life = self.workers[rank].life
        self.news += [News(server, rank, life, returned=False) for server in self.servers]

    def bring_back(self, rank: int) -> None:
        """It is there again, and servers will hear of it."""
        life = self.workers[rank].life + 1
        self.workers[rank] = Worker(Served(self.units), life=life)
        self.news += [News(server, rank, life, returned=True) for server in self.servers]

    def heard(self) -> list[News]:
        """What a server may hear next: of one worker in the order in which it happened."""
        first: dict[tuple[int, int], News] = {}
        for each in self.news:
            first.setdefault((each.server, each.rank), each)
        return list(first.values())

    def hears(self, news: News) -> None:
        """A server counts without a worker from now on, or says from which step on one that has returned may contribute
        to its units, and whether nobody contributes to any of them."""
        self.news.remove(news)
        server, rank, life, returned = news
        homes = {unit: home for unit, home in self.homes.items() if self.units[unit].home == server}
        if not returned:
            for home in homes.values():
                self._carry_out(server, home.lost(rank))
            return
        self._known[server, rank] = life
        step = max(home.returned(rank, life) for home in homes.values())
        over = any(home.over for home in homes.values())
        self.travelling.append(Travelling(Message.WELCOME, server, rank, NO_UNIT, step, int(over), life))

    def _welcomed(self, rank: int, server: int, step: int, over: bool) -> None:
        """Once all servers have: it joins at the latest of the steps; where nobody else contributes any more, it does
        not, either."""
        worker = self.workers[rank]
        worker.welcomes[server] = step, over
        if not worker.here:
            return
        worker.step = max(step for step, _ in worker.welcomes.values())
        worker.done = any(over for _, over in worker.welcomes.values())
        self.joined.append((rank, worker.step, worker.done))
        self._carry_out(rank, worker.machine.joins(worker.step))
        if worker.done:
            self._ends(rank)

    def _ends(self, rank: int) -> None:
        worker = self.workers[rank]
        for index, unit in self.units.items():
            self.travelling.append(
                Travelling(Message.FINISH, rank, unit.home, index, worker.step, 0, worker.life)
            )

    def _moves(self) -> list[Callable[[], None]]:
        return [
            *(partial(self.arrives, message) for message in self.coming()),
            *(partial(self.works, rank) for rank in self.able()),
            *(partial(self.hears, news) for news in self.heard()),
        ]

    def _fragment(self, unit: int) -> int:
        return unit // 2 % self.fragments

    def _may_begin(self, worker: Worker) -> bool:
        if not worker.here or (worker.life and len(worker.came) < len(self.units)):
            return False  # who has returned begins with the answers of all homes
        due = ((unit, self.meeting.arrives(self._fragment(unit), worker.step - 1)) for unit in self.units)
        return all(at is None or worker.clock[unit] >= self.policy.needs(at + 1) for unit, at in due)

    def works(self, rank: int) -> None:
        worker = self.workers[rank]
        if worker.to_push:
            unit = worker.to_push.pop(self.random.randrange(len(worker.to_push)))
            self.sent.append(Given(unit, rank, worker.step, worker.life))
            self._carry_out(rank, worker.machine.ready(unit, worker.step))
            if not worker.to_push:
                self._step_ends(rank)
            return
        if worker.step == self.steps:
            worker.done = True
            self._ends(rank)
            return
        for unit, version in worker.came.items():
            worker.machine.installed(unit, version)
        self.begun.append((rank, worker.step, dict(worker.came)))
        for unit in self.units:
            self.computed_on[Given(unit, rank, worker.step, worker.life)] = worker.came.get(unit, 0)
        worker.to_push = [
            unit for unit in self.units if self.meeting.leaves(self._fragment(unit), worker.step)
        ]
        if not worker.to_push:
            self._step_ends(rank)

    def _step_ends(self, rank: int) -> None:
        """The next step asks for what has been averaged, where anything has."""
        worker = self.workers[rank]
        worker.step += 1
        if any(self.meeting.arrives(part, worker.step - 1) is not None for part in range(self.fragments)):
            self._carry_out(rank, worker.machine.step_began(worker.step))

    def arrives(self, message: Travelling) -> None:
        self.travelling.remove(message)
        kind, source, peer, unit, step, version, life = message
        if peer >= FIRST_SERVER:
            home = self.homes[unit]
            if kind == Message.PUSH:
                found = home.pushed(source, step, version, life)
            elif kind == Message.PULL:
                found = home.pulled(source, step + 1, life)
            elif kind == Message.JOIN:
                found = home.joined(source, step, life)
            else:
                found = home.finished(source, step, life)
            self._carry_out(peer, found, Given(unit, source, step, life))
        elif self.workers[peer].alive and life == self.workers[peer].life:
            worker = self.workers[peer]
            if kind == Message.WELCOME:
                self._welcomed(peer, source, step, bool(version))
            elif kind == Message.NOTIFY:
                self._carry_out(peer, worker.machine.notified(unit, step))
            else:
                assert version >= worker.came.get(unit, 0), "versions only grow"
                worker.came[unit] = version
                self._carry_out(peer, worker.machine.answered(unit, step))

    def _carry_out(self, party: int, found: Sequence[Instruction], arrived: Given | None = None) -> None:
        for instruction in found:
            match instruction:
                case Send(peers, kind, unit, step, version=version):
                    for peer in peers:
                        away = party >= FIRST_SERVER  # of whom it sends to a server knows what it has heard
                        life = self._known[party, peer] if away else self.workers[party].life
                        self.travelling.append(Travelling(kind, party, peer, unit, step, version, life))
                case Keep(unit, origin, step):
                    assert arrived is not None
                    assert arrived[:3] == (unit, origin, step)
                    self.kept.add(arrived)
                case Add(unit, origin, step, first=first, kept=kept):
                    given = self._given(unit, origin, step, kept, arrived)
                    if first:
                        assert not self.sums[unit]
                    self.sums[unit].append(given)
                case Drop(unit, origin, step, reason, kept=kept):
                    self.dropped[self._given(unit, origin, step, kept, arrived)] = reason
                case Update(unit, version, parts=parts, rate=rate):
                    self.named[unit].append([part[:3] for part in parts])
                    self.rates[unit].append(rate)
                    self.updates[unit].append(self.sums.pop(unit))
                    assert version == len(self.updates[unit])
                case Advance(unit, clock):
                    assert clock >= self.workers[party].clock[unit]
                    self.workers[party].clock[unit] = clock
                case Put():
                    pass

    def _given(self, unit: int, origin: int, step: int, kept: bool, arrived: Given | None) -> Given:
        if not kept:
            assert arrived is not None
            assert arrived[:3] == (unit, origin, step)
            return arrived
        (found,) = [each for each in self.kept if each[:3] == (unit, origin, step)]
        self.kept.remove(found)
        return found
