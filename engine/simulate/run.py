"""A job on the virtual clock: its workers compute for as long as they are told to, and all else is the plan's machines.

A forward pass reaches a layer when the one before it has been computed and the layer's units have the version that it
needs; backward goes the other way, and lets units leave as the plan says, where workers average in the steps that end
with an average. Where they drift, each says at its end that it contributes nothing more, and gets the last answers.
Updates on workers take no time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from engine.consistency.policy import Policy
from engine.order.ranks import ranks_of
from engine.plan.cluster import parties, shard_party
from engine.plan.description import DTYPE_BYTES, ModelDescription
from engine.plan.plan import Plan
from engine.plan.traffic import factor_bytes
from engine.plan.units import Unit, cut
from engine.protocol.assembly import homes, worker_machines
from engine.protocol.instructions import Advance, Content, Instruction, Part, Send, Summed, Update
from engine.protocol.messages import Message
from engine.simulate.clock import VirtualClock
from engine.simulate.network import Network, Passed, VirtualNetwork
from engine.transport.message import Header


class Exchanges(Protocol):
    """In which steps a fragment of the model leaves, and after which step left what is needed after one
    (`engine/consistency/average.py`)."""

    def leaves(self, fragment: int, step: int) -> bool: ...
    def arrives(self, fragment: int, step: int) -> int | None: ...


class InEveryStep:
    """All of it leaves, and is needed for the next."""

    def leaves(self, fragment: int, step: int) -> bool:
        return True

    def arrives(self, fragment: int, step: int) -> int | None:
        return step


class Compute(NamedTuple):
    """How long one worker computes a layer in one step."""

    forward_ns: int
    backward_ns: int


class Waited(NamedTuple):
    """A worker could not go on: a layer's version had not come."""

    rank: int
    step: int
    layer: int
    start_ns: int
    end_ns: int


@dataclass(kw_only=True)
class Simulated:
    """What happened."""

    begun_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """By worker and step: when its forward pass began. The one behind the last step: when all had come."""
    waited: list[Waited] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    """What crossed the network."""
    moved: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(sender, receiver, unit): payload bytes of all messages, those within a host as well."""
    applied: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(unit, worker, staleness): contributions that were applied, where workers drift."""


class _Worker:
    """One worker: where it is in its step."""

    def __init__(self, run: _Run, rank: int) -> None:
        self.rank = rank
        self._run = run
        self.machines = worker_machines(run.plan, run.units, rank=rank, workers=run.workers)
        self._served = next(iter(self.machines.served.values()), None)
        self.step = 0
        self.clock: dict[int, int] = defaultdict(int)
        self.read: dict[int, int] = {}
        self._awaited: Callable[[], bool] | None = None
        self.ended = False
        """It has contributed all, and has all that it gets."""
        self._held: list[Unit] = []

    def begin(self) -> None:
        self._run.found.begun_ns[self.rank, self.step] = self._run.clock.now_ns
        if self.step < self._run.steps:
            self._forward(0)
            return
        last = self._run.steps + 1
        if self._served is None or self._run.policy.lockstep:
            self.ended = True
            return
        self._run.carry_out(self.rank, self._served.finished(self.step))
        self._wait(0, dict.fromkeys(self.machines.served, last), self._end)

    def _end(self) -> None:
        self.ended = True

    def _forward(self, position: int) -> None:
        run = self._run
        if position == len(run.order):
            self._backward(len(run.order) - 1)
            return
        layer = run.order[position]
        units = [unit.index for unit in run.of_layer[layer]]

        def computes() -> None:
            for unit in units:
                if unit in self.machines.served:  # its gradient says that it was computed on this version
                    self.machines.served[unit].installed(unit, self.read.get(unit, 0))
                if unit in self.machines.peers:
                    run.applied(unit, self.machines.peers[unit].taken(unit))
            run.clock.at(
                run.clock.now_ns + run.compute[layer].forward_ns, partial(self._forward, position + 1)
            )

        self._wait(position, self._needed(run.of_layer[layer]), computes)

    def _needed(self, units: Sequence[Unit]) -> dict[int, int]:
        """By unit: which clock its answer must have before the worker goes on."""
        run, found = self._run, {}
        for unit in units:
            left = run.exchanges.arrives(run.fragment(unit), self.step - 1)
            found[unit.index] = 0 if left is None else run.policy.needs(left + 1)
        return found

    def _wait(self, position: int, needed: Mapping[int, int], then: Callable[[], None]) -> None:
        run, start_ns, step = self._run, self._run.clock.now_ns, self.step

        def there() -> bool:
            if any(self.clock[unit] < clock for unit, clock in needed.items()):
                return False
            self._awaited = None
            if run.clock.now_ns > start_ns:
                run.found.waited.append(Waited(self.rank, step, position, start_ns, run.clock.now_ns))
            then()
            return True

        self._awaited = there
        there()

    def _backward(self, position: int) -> None:
        run = self._run
        if position < 0:
            held, self._held = self._held, []
            for unit in held:
                self._leaves(unit)
            self.step += 1
            asks = any(run.exchanges.arrives(run.fragment(u), self.step - 1) is not None for u in run.units)
            if self._served is not None and asks:
                run.carry_out(self.rank, self._served.step_began(self.step))
            if self.step == run.steps:
                self._wait(0, self._needed(run.units), self.begin)
            else:
                self.begin()
            return
        run.clock.at(
            run.clock.now_ns + run.compute[run.order[position]].backward_ns, partial(self._computed, position)
        )

    def _computed(self, position: int) -> None:
        """A layer's gradients are there, and with them units of which it was the last."""
        run = self._run
        for unit in run.of_layer[run.order[position]]:
            if run.first_layer[unit.index] == position:
                if run.choices[unit.layers[0]].order.depart == "when-ready":
                    self._leaves(unit)
                else:
                    self._held.append(unit)
        self._backward(position - 1)

    def _leaves(self, unit: Unit) -> None:
        machines, index = self.machines, unit.index
        if not self._run.exchanges.leaves(self._run.fragment(unit), self.step):
            return
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
        self._run.carry_out(self.rank, found)

    def arrived(self, header: Header) -> list[Instruction]:
        machines, unit = self.machines, header.unit
        match header.kind:
            case Message.NOTIFY:
                return machines.served[unit].notified(unit, header.step)
            case Message.ANSWER:
                self.read[unit] = header.version
                return machines.served[unit].answered(unit, header.step)
            case Message.ROUND:
                return machines.rounds[unit].arrived(unit, header.step, header.part, header.origin)
            case Message.UPDATE:
                machine, given = machines.peers[unit], (unit, header.step, header.origin)
                return [*machine.arrived(*given), *machine.added(*given, header.version)]
            case _:
                return machines.gathered[unit].arrived(unit, header.step, header.origin)

    def advanced(self, unit: int, clock: int) -> None:
        self.clock[unit] = max(clock, self.clock[unit])
        if self._awaited is not None:
            self._awaited()


class _Run:
    """All parties of one job."""

    def __init__(
        self,
        plan: Plan,
        model: ModelDescription,
        *,
        workers: int,
        steps: int,
        policy: Callable[[], Policy],
        exchanges: Exchanges,
        compute: Mapping[str, Compute],
        network: Callable[..., Network],
        hosts: int | None,
        rank_order: bool,
        update_ns: Callable[[Unit], int],
        units: Sequence[Unit] | None,
    ) -> None:
        self._update_ns = update_ns
        self.plan, self.model, self.workers, self.steps = plan, model, workers, steps
        self.units = cut(plan, model) if units is None else units
        self.choices = {layer.layer: layer for layer in plan.layers}
        computed = self.choices if units is None else {name for unit in units for name in unit.layers}
        self.order = [layer.name for layer in model.layers if layer.name in computed]
        self.compute = defaultdict(lambda: Compute(0, 0), compute)
        self.policy = policy()
        self.exchanges = exchanges
        self.of_layer: dict[str, list[Unit]] = defaultdict(list)
        for unit in self.units:
            for name in unit.layers:
                self.of_layer[name].append(unit)
        position = {name: index for index, name in enumerate(self.order)}
        self.first_layer = {unit.index: min(position[name] for name in unit.layers) for unit in self.units}
        ranks = ranks_of([(self.choices[unit.layers[0]], unit) for unit in self.units])
        self._priority = {
            unit.index: partial(ranks[self.choices[unit.layers[0]].order.rank], unit) for unit in self.units
        }
        self._unit = {unit.index: unit for unit in self.units}
        self._described = {layer.name: layer for layer in model.layers}
        self.clock = VirtualClock()
        at = {party.index: party.host for party in parties(plan, workers, hosts)}
        self._network = network(self.clock, at, self._deliver)
        self.found = Simulated(passed=self._network.passed)
        self._homes = {
            unit: (shard_party(plan, workers, shard), home)
            for shard in range(plan.servers.count if plan.servers else 0)
            for unit, home in homes(
                plan, self.units, shard=shard, workers=workers, policy=policy, rank_order=rank_order
            ).items()
        }
        self._workers = [_Worker(self, rank) for rank in range(workers)]

    def run(self) -> Simulated:
        for worker in self._workers:
            worker.begin()
        self.clock.run()
        stuck = [worker.rank for worker in self._workers if not worker.ended]
        assert not stuck, f"workers {stuck} wait for what does not come"
        return self.found

    def applied(self, unit: int, parts: Sequence[Part]) -> None:
        self.found.applied.update((unit, part.rank, part.staleness) for part in parts)

    def fragment(self, unit: Unit) -> int:
        """Which part of the model it is averaged with."""
        return self.choices[unit.layers[0]].fragment

    def carry_out(self, party: int, found: Sequence[Instruction]) -> None:
        """What a machine of `party` says."""
        for number, instruction in enumerate(found):
            if isinstance(instruction, Send):
                self._send(party, instruction)
            elif isinstance(instruction, Advance):
                self._workers[party].advanced(instruction.unit, instruction.clock)
            elif isinstance(instruction, Summed):
                machine = self._workers[party].machines.rounds[instruction.unit]
                self.carry_out(party, machine.summed(instruction.unit, instruction.step))
            elif isinstance(instruction, Update):
                unit = instruction.unit
                self.applied(unit, instruction.parts)
                if takes_ns := self._update_ns(self._unit[unit]):
                    rest = partial(self.carry_out, party, found[number + 1 :])
                    self.clock.at(self.clock.now_ns + takes_ns, rest)
                    return

    def _send(self, party: int, send: Send) -> None:
        size = self._bytes(party, send)
        header = Header(
            kind=send.kind,
            origin=party,
            step=send.step,
            unit=send.unit,
            part=send.part,
            priority=self._priority[send.unit](send.step),
            queued_ns=self.clock.now_ns,
            payload_bytes=size,
            version=send.version,
        )
        for peer in send.peers:
            self.found.moved[party, peer, send.unit] += size
            self._network.send(party, peer, header, self._on_sent(party, peer, send))

    def _on_sent(self, party: int, peer: int, send: Send) -> Callable[[], None] | None:
        """Of a message that a machine asks about."""
        if send.kind == Message.UPDATE:
            return partial(self._left, party, peer, send.unit)
        return partial(self._sent, party, send) if send.kind == Message.ROUND else None

    def _left(self, party: int, peer: int, unit: int) -> None:
        self.carry_out(party, self._workers[party].machines.peers[unit].sent(unit, peer))

    def _sent(self, party: int, send: Send) -> None:
        self.carry_out(party, self._workers[party].machines.rounds[send.unit].sent(send.unit, send.step))

    def _deliver(self, party: int, header: Header) -> None:
        if header.kind == Message.PUSH:
            self.carry_out(
                party,
                self._homes[header.unit][1].pushed(header.origin, header.step, header.version),
            )
        elif header.kind == Message.PULL:
            self.carry_out(party, self._homes[header.unit][1].pulled(header.origin, header.step + 1))
        elif header.kind == Message.FINISH:
            self.carry_out(party, self._homes[header.unit][1].finished(header.origin, header.step + 1))
        else:
            self.carry_out(party, self._workers[party].arrived(header))

    def _bytes(self, party: int, send: Send) -> int:
        unit = self._unit[send.unit]
        layer = self.choices[unit.layers[0]]
        if send.content is Content.FACTORS:
            workload = self.plan.workload
            assert workload is not None, "resolve the plan first"
            samples = workload.share(party, self.workers)
            return factor_bytes(self._described[layer.layer], workload, layer.encoding, samples)
        if send.content is Content.PARAMETERS and layer.update == "server":
            whole = (
                send.snapshot and self._homes[send.unit][1].over
            )  # in the end all get the parameters as they are
            elements = send.stop - send.start
            return (
                elements * DTYPE_BYTES[unit.dtype]
                if whole
                else unit.message_bytes(layer.answer_encoding, send.start, send.stop)
            )
        apart = send.apart or ((send.start, send.stop),)
        return sum(unit.message_bytes(layer.encoding, start, stop) for start, stop in apart)


def simulate(
    plan: Plan,
    model: ModelDescription,
    *,
    workers: int,
    steps: int,
    policy: Callable[[], Policy],
    exchanges: Exchanges | None = None,
    compute: Mapping[str, Compute] | None = None,
    network: Callable[..., Network] = VirtualNetwork,
    hosts: int | None = None,
    rank_order: bool = False,
    update_ns: Callable[[Unit], int] = lambda unit: 0,
    units: Sequence[Unit] | None = None,
) -> Simulated:
    """`steps` steps of a resolved plan whose layers are all on every worker. `exchanges`: where workers average, when;
    left out, they exchange in every step. `compute`: by layer; those left out take no time. `network(clock, hosts,
    deliver)` makes the links. `update_ns`: how long a server updates a unit; it updates several at once. `units`: those
    alone, with their layers, of the plan's."""
    return _Run(
        plan, model, workers=workers, steps=steps, policy=policy, exchanges=exchanges or InEveryStep(),
        compute=compute or {}, network=network, hosts=hosts, rank_order=rank_order, update_ns=update_ns, units=units,
    ).run()  # fmt: skip
