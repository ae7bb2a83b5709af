"""A worker on the virtual clock: where it is in its step.

A forward pass reaches a layer when the one before it has been computed and the layer's units have the version that it
needs; backward goes the other way, and lets units leave as the plan says in the step's last pass, where workers average
in the steps that end with an average. Where layers are in a row on several workers, or some are on a device, passes
wait for what the other end of an edge sends. Where workers drift, each says at its end that it contributes nothing
more, and gets the last answers. Updates on workers take no time.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engine.placement.schedule import Action
from engine.plan.units import Unit
from engine.protocol.assembly import worker_machines
from engine.protocol.instructions import Advance, Instruction
from engine.protocol.messages import Message
from engine.simulate.happened import Joined, Waited
from engine.simulate.seats import Seat
from engine.transport.message import Header

if TYPE_CHECKING:
    from engine.simulate.run import VirtualJob


class VirtualWorker:
    """One worker, in one of its lives."""

    def __init__(self, run: VirtualJob, seat: Seat, *, life: int = 0, slowed: float = 1.0) -> None:
        """`life`: how often it was started anew. `slowed`: how many times as long as others it computes."""
        self.party = seat.party
        self.life = life
        self.alive = True
        self._run = run
        self._seat = seat
        self._slowed = slowed
        self._units = [unit for unit in run.units if unit.layers[0] in seat.layers]
        self.machines = worker_machines(run.plan, self._units, rank=seat.rank, workers=len(seat.team))
        self._served = next(iter(self.machines.served.values()), None)
        self.step = 0
        self.clock: dict[int, int] = defaultdict(int)
        self.read: dict[int, int] = {}
        self.ended = False
        """It has contributed all, and has all that it gets."""
        self._awaited: Callable[[], bool] | None = None
        self._held: list[Unit] = []
        self._passes: deque[Action] = deque()
        self._begun: Counter[Action] = Counter()
        """Passes of this step."""
        self._came: set[tuple[Message, int]] = set()
        """What has come by the edges: its kind, and the pass that it is for, counted from the first step on."""
        self._welcomes: dict[int, tuple[int, bool]] = {}
        """By server: see `welcomed`."""

    def begin(self) -> None:
        """The next step, or the end."""
        run = self._run
        run.found.begun_ns[self.party, self.step] = run.clock.now_ns
        if self.step < run.steps:
            self._passes, self._begun = deque(self._seat.passes), Counter()
            self._next_pass()
            return
        peers = next(iter(self.machines.peers.values()), None)
        if peers is not None:
            run.carry_out(self.party, peers.finished(self.step))
        elif self._served is not None and not run.policy.lockstep:
            run.carry_out(self.party, self._served.finished(self.step))
        else:
            self.ended = True
            return
        drifting = [*self.machines.served, *self.machines.peers]
        self._wait(None, self._have(dict.fromkeys(drifting, run.steps + 1)), self._end)

    def lost(self) -> None:
        """It does nothing more."""
        self.alive = False

    def welcomed(self, server: int, step: int, *, over: bool) -> None:
        """A server says from which step on this worker, which was lost, may contribute, and whether nobody contributes
        any more. It joins when all have, at the latest of these steps, with the parameters that they have then."""
        run = self._run
        self._welcomes[server] = step, over
        if len(self._welcomes) < len(run.servers):
            return
        self.step = max(step for step, _ in self._welcomes.values())
        late = any(over for _, over in self._welcomes.values())
        run.found.joined.append(Joined(self.party, self.life, None if late else self.step, run.clock.now_ns))
        assert self._served is not None, "who may return has servers"
        run.carry_out(self.party, self._served.joins(self.step))
        if late:
            run.carry_out(self.party, self._served.finished(self.step))
            self.ended = True
            return
        self._wait(None, self._have(dict.fromkeys(self.machines.served, self.step)), self.begin)

    def arrived(self, header: Header) -> list[Instruction]:
        """A message for this worker's machines; what comes by an edge is for `crossed`."""
        machines, unit = self.machines, header.unit
        match header.kind:
            case Message.NOTIFY:
                return machines.served[unit].notified(unit, header.step)
            case Message.ANSWER:
                self.read[unit] = header.version
                return machines.served[unit].answered(unit, header.step, header.part)
        origin = self._seat.team.index(header.origin)
        match header.kind:
            case Message.ROUND:
                return machines.rounds[unit].arrived(unit, header.step, header.part, origin)
            case Message.UPDATE:
                machine, given = machines.peers[unit], (unit, header.step, origin)
                return [*machine.arrived(*given), *machine.added(*given, header.version)]
            case Message.FINISH:
                return machines.peers[unit].peer_finished(unit, origin, header.step + 1)
            case _:
                return machines.gathered[unit].arrived(unit, header.step, origin)

    def crossed(self, kind: Message, turn: int) -> None:
        """What the other end of an edge has sent for a pass."""
        self._came.add((kind, turn))
        self._look()

    def advanced(self, unit: int, clock: int) -> None:
        """The unit holds the result of all steps before `clock`."""
        self.clock[unit] = max(clock, self.clock[unit])
        self._look()

    def parties(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Who the team's members are."""
        return tuple(self._seat.team[rank] for rank in ranks)

    @property
    def rank(self) -> int:
        """Its number among those that hold the same layers."""
        return self._seat.rank

    @property
    def team_size(self) -> int:
        return len(self._seat.team)

    def _look(self) -> None:
        if self._awaited is not None:
            self._awaited()

    def _end(self) -> None:
        self.ended = True

    def _after(self, takes_ns: int, then: Callable[[], None]) -> None:
        clock = self._run.clock
        clock.at(clock.now_ns + round(takes_ns * self._slowed), lambda: then() if self.alive else None)

    def _wait(self, position: int | None, there: Callable[[], bool], then: Callable[[], None]) -> None:
        """`position`: of the layer that waits; None where none does, before this worker's first step and behind its
        last one."""
        run, start_ns, step = self._run, self._run.clock.now_ns, self.step

        def goes_on() -> bool:
            if not there():
                return False
            self._awaited = None
            if position is not None and run.clock.now_ns > start_ns:
                run.found.waited.append(Waited(self.party, step, position, start_ns, run.clock.now_ns))
            then()
            return True

        self._awaited = goes_on
        goes_on()

    def _have(self, needed: Mapping[int, int]) -> Callable[[], bool]:
        return lambda: all(self.clock[unit] >= clock for unit, clock in needed.items())

    def _next_pass(self) -> None:
        if not self._passes:
            self._step_ends()
            return
        action = self._passes.popleft()
        number = self._begun[action]
        self._begun[action] += 1
        seat = self._seat
        if action == "forward":
            then, awaits = partial(self._forward, 0, number), seat.before is not None
        else:
            then = partial(self._backward, len(seat.layers) - 1, number)
            awaits = seat.behind is not None and (seat.to_device or seat.samples[number] > 0)
        kind = Message.ACTIVATION if action == "forward" else Message.ACTIVATION_GRADIENT
        key = kind, self._turn(number)
        self._wait(self._position(0), lambda: not awaits or key in self._came, then)

    def _turn(self, number: int) -> int:
        """Passes are counted through all steps."""
        return self.step * len(self._seat.samples) + number

    def _position(self, index: int) -> int:
        """Of one of its layers in the model."""
        layers = self._seat.layers
        return self._run.position[layers[index]] if index < len(layers) else 0

    def _part(self, number: int, takes_ns: int) -> int:
        """How long of a step's time the pass takes."""
        samples = self._seat.samples
        return round(takes_ns * samples[number] / (sum(samples) or 1))

    def _forward(self, index: int, number: int) -> None:
        run, seat = self._run, self._seat
        if index == len(seat.layers):
            if seat.behind is not None:
                edge, peer = seat.behind
                kind = Message.ACTIVATION
                run.cross(kind, edge, self.party, peer, self.step, self._turn(number), seat.samples[number])
            self._next_pass()
            return
        layer = seat.layers[index]
        units = [unit.index for unit in run.of_layer[layer]]

        def computes() -> None:
            for unit in units if number == 0 else ():
                if unit in self.machines.served:  # its gradient says that it was computed on this version
                    self.machines.served[unit].installed(unit, self.read.get(unit, 0))
                if unit in self.machines.peers:
                    run.applied(unit, self.machines.peers[unit].taken(unit))
            self._after(
                self._part(number, run.compute[layer].forward_ns), partial(self._forward, index + 1, number)
            )

        self._wait(self._position(index), self._have(self._needed(run.of_layer[layer])), computes)

    def _needed(self, units: Sequence[Unit]) -> dict[int, int]:
        """By unit: which clock its answer must have before the worker goes on."""
        run, found = self._run, {}
        for unit in units:
            left = run.exchanges.arrives(run.fragment(unit), self.step - 1)
            found[unit.index] = 0 if left is None else run.policy.needs(left + 1)
        return found

    def _backward(self, index: int, number: int) -> None:
        run, seat = self._run, self._seat
        if index < 0:
            if seat.before is not None and seat.samples[number]:
                edge, peer = seat.before
                kind = Message.ACTIVATION_GRADIENT
                run.cross(kind, edge, self.party, peer, self.step, self._turn(number), seat.samples[number])
            self._next_pass()
            return
        takes_ns = self._part(number, run.compute[seat.layers[index]].backward_ns)
        self._after(takes_ns, partial(self._computed, index, number))

    def _computed(self, index: int, number: int) -> None:
        """A layer's gradients are there, and in the step's last pass with them units of which it was the last."""
        run, layers = self._run, self._seat.layers
        for unit in run.of_layer[layers[index]] if number == len(self._seat.samples) - 1 else ():
            if run.first_layer[unit.index] == run.position[layers[index]]:
                if run.choices[unit.layers[0]].order.depart == "when-ready":
                    self._leaves(unit)
                else:
                    self._held.append(unit)
        self._backward(index - 1, number)

    def _step_ends(self) -> None:
        run = self._run
        held, self._held = self._held, []
        for unit in held:
            self._leaves(unit)
        self.step += 1
        asks = any(run.exchanges.arrives(run.fragment(u), self.step - 1) is not None for u in self._units)
        if self._served is not None and asks:
            run.carry_out(self.party, self._served.step_began(self.step))
        if self.step == run.steps:
            self._wait(0, self._have(self._needed(self._units)), self.begin)
        else:
            self.begin()

    def _leaves(self, unit: Unit) -> None:
        machines, index = self.machines, unit.index
        if not self._run.exchanges.leaves(self._run.fragment(unit), self.step):
            return
        if unit.phases and index not in machines.alone:
            self._run.found.encoded[self.party] += unit.count
            self._run.found.decoded[self.party] += unit.count
        if index in machines.alone:
            found: list[Instruction] = [Advance(index, self.step + 1)]
        elif index in machines.served:
            found = machines.served[index].ready(index, self.step)
        elif index in machines.rounds:
            found = machines.rounds[index].ready(index, self.step)
        elif index in machines.peers:
            found = machines.peers[index].ready(index, self.step)
        else:
            found = machines.gathered[index].ready(index, self.step)
        self._run.carry_out(self.party, found)
