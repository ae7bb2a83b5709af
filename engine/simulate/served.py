"""Who serves workers on the virtual clock: a server shard, and a device that computes some layers for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from engine.protocol.home import Home
from engine.protocol.instructions import Instruction
from engine.protocol.messages import Message
from engine.transport.message import Header

if TYPE_CHECKING:
    from engine.simulate.run import VirtualJob


class VirtualServer:
    """The homes of one shard."""

    def __init__(self, run: VirtualJob, party: int, homes: Mapping[int, Sequence[Home]]) -> None:
        """`homes`: by unit, one for each phase. All but pushes are for the last one."""
        self.party = party
        self.homes = homes
        self._run = run
        self._life: dict[int, int] = {}
        """By worker that has returned: how often. Nothing comes of a lost one after the word that it has."""
        self._joined: set[tuple[int, int]] = set()
        """(unit, worker) of who has joined again, and has not been answered since."""

    def arrived(self, header: Header) -> list[Instruction]:
        """A message of a worker."""
        home, rank = self.homes[header.unit][-1], header.origin
        life = self._life.get(rank, 0)
        match header.kind:
            case Message.PUSH:
                return self.homes[header.unit][header.part].pushed(rank, header.step, header.version, life)
            case Message.PULL:
                return home.pulled(rank, header.step + 1, life)
            case Message.JOIN:
                self._joined.add((header.unit, rank))
                return home.joined(rank, header.step, life)
            case _:
                return home.finished(rank, header.step + 1, life)

    def answers_whole(self, unit: int, rank: int) -> bool:
        """Whether the answer that leaves now is the parameters as they are: for who has joined again, once, and in the
        end for all."""
        joined = (unit, rank) in self._joined
        self._joined.discard((unit, rank))
        return joined or self.homes[unit][-1].over

    def loses(self, rank: int) -> None:
        """A worker's link has ended. Raises UserError where too few are left."""
        for home in chain.from_iterable(self.homes.values()):
            found = home.lost(rank)
            home.check_enough_are_left(rank)
            self._run.carry_out(self.party, found)

    def regains(self, rank: int, life: int) -> None:
        """A worker that was lost is there again: it is told from which step on it may contribute here."""
        self._life[rank] = life
        homes = [*chain.from_iterable(self.homes.values())]
        step = max((home.returned(rank, life) for home in homes), default=1)
        over = any(home.over for home in homes)
        self._run.welcome(self.party, rank, step, over=over)


class VirtualDevice:
    """It computes one pass of every worker, as they come (in rank order where sums are), and then the next pass. Beside
    a worker, too, it computes while that one does, though there a real one takes the worker's time."""

    def __init__(self, run: VirtualJob, party: int, layers: Sequence[str], workers: int) -> None:
        self._run = run
        self._party = party
        self._layers = layers
        self._workers = workers
        self._pieces: list[Header] = []
        """What waits, as it came."""
        self._turn = 0
        self._served = 0
        """Workers of whom this turn's pass is computed."""
        self._busy = False

    def arrived(self, header: Header) -> None:
        """A worker's piece of a pass."""
        self._pieces.append(header)
        self._go_on()

    def _go_on(self) -> None:
        if self._busy:
            return
        for piece in self._pieces:
            if piece.part == self._turn and (not self._run.rank_order or piece.origin == self._served):
                self._pieces.remove(piece)
                self._busy = True
                now_ns, takes_ns = self._run.clock.now_ns, self._takes_ns(piece)
                self._run.clock.at(now_ns + takes_ns, partial(self._computed, piece))
                return

    def _takes_ns(self, piece: Header) -> int:
        passes = self._run.samples_of(piece.origin)
        whole = sum(sum(self._run.compute[layer]) for layer in self._layers)
        return round(whole * passes[piece.part % len(passes)] / (sum(passes) or 1))

    def _computed(self, piece: Header) -> None:
        self._busy = False
        passes = self._run.samples_of(piece.origin)
        samples = passes[piece.part % len(passes)]
        kind = Message.ACTIVATION_GRADIENT
        self._run.cross(kind, 0, self._party, piece.origin, piece.step, piece.part, samples)
        self._served += 1
        if self._served == self._workers:
            self._turn, self._served = self._turn + 1, 0
        self._go_on()
