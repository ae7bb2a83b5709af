"""A job on the virtual clock: its workers compute for as long as they are told to, and all else is the plan's machines,
those that the runtime runs. A worker may be lost and return; then each server hears of it when its own link with that
worker ends, behind all that was on its way, and again when a new one is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engine.axes.order import RANK
from engine.consistency.policy import Policy
from engine.order.ranks import ranks_of
from engine.plan.cluster import device_party, parties, shard_party
from engine.plan.description import DTYPE_BYTES, ModelDescription
from engine.plan.edges import edge_bytes, edge_units
from engine.plan.encoding import encoding
from engine.plan.plan import Plan
from engine.plan.traffic import factor_bytes, factor_type
from engine.plan.units import Unit, cut
from engine.protocol.assembly import homes
from engine.protocol.instructions import Advance, Content, Drop, Instruction, Part, Send, Summed, Update
from engine.protocol.messages import Message
from engine.simulate.clock import VirtualClock
from engine.simulate.happened import (
    Compute,
    DroppedContribution,
    Exchanges,
    InEveryStep,
    Simulated,
    Updated,
    WorkerLoss,
    check_losses,
)
from engine.simulate.network import Network, VirtualNetwork
from engine.simulate.seats import seats_of
from engine.simulate.served import VirtualDevice, VirtualServer
from engine.simulate.worker import VirtualWorker
from engine.transport.message import Header

_AS_IS = encoding("fp32")
_TO_SERVERS = {Message.PUSH, Message.PULL, Message.JOIN}


class VirtualJob:
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
        edges: bool,
        slowed: Mapping[int, float],
        losses: Sequence[WorkerLoss],
    ) -> None:
        self._update_ns = update_ns
        self.plan, self.model, self.steps, self.rank_order = plan, model, steps, rank_order
        self.units = cut(plan, model) if units is None else units
        self.choices = {layer.layer: layer for layer in plan.layers}
        computed = self.choices if units is None else {name for unit in units for name in unit.layers}
        order = [layer.name for layer in model.layers if layer.name in computed]
        self.position = {name: index for index, name in enumerate(order)}
        self.compute = defaultdict(lambda: Compute(0, 0), compute)
        self.policy = policy()
        check_losses(losses, plan, workers, self.policy)
        self.exchanges = exchanges
        self.of_layer: dict[str, list[Unit]] = defaultdict(list)
        for unit in self.units:
            for name in unit.layers:
                self.of_layer[name].append(unit)
        self.first_layer = {
            unit.index: min(self.position[name] for name in unit.layers) for unit in self.units
        }
        ranks = ranks_of([(self.choices[unit.layers[0]], unit) for unit in self.units])
        self._priority = {
            unit.index: partial(ranks[self.choices[unit.layers[0]].order.rank], unit) for unit in self.units
        }
        self._unit = {unit.index: unit for unit in self.units}
        self._described = {layer.name: layer for layer in model.layers}
        self._edges = edge_units(plan, model) if edges else ()
        self.clock = VirtualClock()
        at = {party.index: party.host for party in parties(plan, workers, hosts)}
        self._network = network(self.clock, at, self._deliver)
        self.found = Simulated(passed=self._network.passed)
        self.servers = {
            party: VirtualServer(
                self,
                party,
                homes(plan, self.units, shard=shard, workers=workers, policy=policy, rank_order=rank_order),
            )
            for shard in range(plan.servers.count if plan.servers else 0)
            for party in (shard_party(plan, workers, shard),)
        }
        self._server_of = {unit: server for server in self.servers.values() for unit in server.homes}
        self._devices = {
            party: VirtualDevice(self, party, self._on_device(order, number), workers)
            for number in range(len(plan.devices) if edges else 0)
            for party in (device_party(plan, workers, number),)
        }
        self._seats = seats_of(plan, model, workers, computed, edges=edges)
        self._slowed = slowed
        self._workers = [
            VirtualWorker(self, seat, slowed=slowed.get(seat.party, 1.0)) for seat in self._seats
        ]
        for loss in losses:
            self.clock.at(loss.at_ns, partial(self._lose, loss.rank))
            if loss.returns_ns is not None:
                self.clock.at(loss.returns_ns, partial(self._bring_back, loss.rank))

    def run(self) -> Simulated:
        """Until nothing happens any more."""
        for worker in self._workers:
            worker.begin()
        self.clock.run()
        stuck = [worker.party for worker in self._workers if worker.alive and not worker.ended]
        assert not stuck, f"workers {stuck} wait for what does not come"
        return self.found

    def applied(self, unit: int, parts: Sequence[Part]) -> None:
        """A unit has taken contributions."""
        self.found.applied.update((unit, part.rank, part.staleness) for part in parts)

    def fragment(self, unit: Unit) -> int:
        """Which part of the model it is averaged with."""
        return self.choices[unit.layers[0]].fragment

    def _on_device(self, order: Sequence[str], number: int) -> list[str]:
        chosen = ((name, self.choices[name]) for name in order)
        return [name for name, layer in chosen if layer.placement == "device" and layer.place == number]

    def samples_of(self, party: int) -> tuple[int, ...]:
        """Of a worker's passes in one step."""
        return self._seats[party].samples

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
            elif isinstance(instruction, Drop):
                unit, rank, step, reason, _ = instruction
                self.found.dropped.append(DroppedContribution(unit, rank, step, reason))
            elif isinstance(instruction, Update):
                unit = instruction.unit
                self.applied(unit, instruction.parts)
                self.found.updated.append(
                    Updated(unit, instruction.version, self.clock.now_ns, instruction.parts)
                )
                if takes_ns := self._update_ns(self._unit[unit]):
                    rest = partial(self.carry_out, party, found[number + 1 :])
                    self.clock.at(self.clock.now_ns + takes_ns, rest)
                    return

    def cross(
        self, kind: Message, edge: int, party: int, peer: int, step: int, turn: int, samples: int
    ) -> None:
        """Send so many samples' activations, or their gradients, over an edge: of a pass, counted from the first."""
        unit, chosen = self._edges[edge], self.plan.edges[edge]
        place = self.model.cut(chosen.destination)
        assert place is not None, "resolve the plan first"
        size = edge_bytes(chosen, place, [samples])
        priority = RANK[chosen.order.rank].load()(unit, step)
        self._post(party, peer, kind, unit.index, step, part=turn, priority=priority, size=size)

    def welcome(self, server: int, rank: int, step: int, *, over: bool) -> None:
        """A server tells a worker that has returned from which step on it may contribute."""
        self._post(server, rank, Message.WELCOME, 0, step, part=int(over))

    def _lose(self, rank: int) -> None:
        worker = self._workers[rank]
        if worker.ended:
            return
        worker.lost()
        self._network.lose(rank, partial(self._hear_of_loss, rank))

    def _hear_of_loss(self, rank: int, party: int) -> None:
        """The link between two parties has ended."""
        if party in self.servers:
            self.servers[party].loses(rank)
        elif party < len(self._workers) and self._workers[party].alive:
            machines = self._workers[party].machines
            if (peers := next(iter(machines.peers.values()), None)) is not None:
                self.carry_out(party, peers.lost(rank))

    def _bring_back(self, rank: int) -> None:
        before = self._workers[rank]
        if before.alive:  # it had ended before it would have been lost
            return
        life = before.life + 1
        self._workers[rank] = VirtualWorker(
            self, self._seats[rank], life=life, slowed=self._slowed.get(rank, 1.0)
        )
        self._network.meet(rank, partial(self._hear_of_return, rank, life))

    def _hear_of_return(self, rank: int, life: int, party: int) -> None:
        if party in self.servers:
            self.servers[party].regains(rank, life)

    def _send(self, party: int, send: Send) -> None:
        peers, size = send.peers, None
        if send.kind in (Message.ROUND, Message.FACTORS, Message.UPDATE) or (
            send.kind == Message.FINISH and send.unit not in self._server_of
        ):
            peers = self._workers[party].parties(peers)  # machines of a team know its members by their rank
        self._code(party, peers, send)
        for rank, peer in zip(send.peers, peers, strict=True):
            if size is None or send.snapshot:
                size = self._bytes(party, rank, send)
            self._post(
                party,
                peer,
                send.kind,
                send.unit,
                send.step,
                part=send.part,
                priority=self._priority[send.unit](send.step),
                version=send.version,
                size=size,
                on_sent=self._on_sent(party, rank, send),
            )

    def _code(self, party: int, peers: Sequence[int], send: Send) -> None:
        """A message passes through its layer's codec: it is encoded once for all, and decoded by each, and where others
        must have the same, by who sends it. What is summed in phases is counted where it leaves."""
        unit = self._unit[send.unit]
        layer = self.choices[unit.layers[0]]
        answers = send.content is Content.PARAMETERS and layer.update == "server"
        way = layer.answer_encoding if answers else layer.encoding
        if unit.phases or send.content is Content.NOTHING or "lossless" in way.traits:
            return
        elements = self._elements(party, send)
        if not send.finished or send.owned:  # else it is handed on as it came
            self.found.encoded[party] += elements
        for peer in [*peers, *([party] if send.owned or send.content is Content.FACTORS else [])]:
            self.found.decoded[peer] += elements

    def _elements(self, party: int, send: Send) -> int:
        if send.content is not Content.FACTORS:
            return send.stop - send.start
        layer, workload = self.choices[self._unit[send.unit].layers[0]], self.plan.workload
        assert workload is not None, "resolve the plan first"
        described, worker = self._described[layer.layer], self._workers[party]
        size = factor_bytes(described, workload, _AS_IS, workload.share(worker.rank, worker.team_size))
        return size // DTYPE_BYTES[factor_type(described, workload)]

    def _post(
        self,
        party: int,
        peer: int,
        kind: Message,
        unit: int,
        step: int,
        *,
        part: int = 0,
        priority: int = 0,
        version: int = 0,
        size: int = 0,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        header = Header(
            kind=kind,
            origin=party,
            step=step,
            unit=unit,
            part=part,
            priority=priority,
            queued_ns=self.clock.now_ns,
            payload_bytes=size,
            version=version,
        )
        self.found.moved[party, peer, unit] += size
        self._network.send(party, peer, header, on_sent)

    def _on_sent(self, party: int, rank: int, send: Send) -> Callable[[], None] | None:
        """Of a message that a machine asks about; `rank`: its receiver's in the team."""
        if send.kind == Message.UPDATE:
            return partial(self._left, party, rank, send.unit)
        return partial(self._sent, party, send) if send.kind == Message.ROUND else None

    def _left(self, party: int, rank: int, unit: int) -> None:
        if self._workers[party].alive:
            self.carry_out(party, self._workers[party].machines.peers[unit].sent(unit, rank))

    def _sent(self, party: int, send: Send) -> None:
        self.carry_out(party, self._workers[party].machines.rounds[send.unit].sent(send.unit, send.step))

    def _deliver(self, party: int, header: Header) -> None:
        kind = header.kind
        if kind in _TO_SERVERS or (kind == Message.FINISH and header.unit in self._server_of):
            self.carry_out(party, self._server_of[header.unit].arrived(header))
        elif kind == Message.ACTIVATION and self._devices:
            self._devices[party].arrived(header)
        elif (worker := self._workers[party]).alive:
            if kind in (Message.ACTIVATION, Message.ACTIVATION_GRADIENT):
                worker.crossed(Message(kind), header.part)
            elif kind == Message.WELCOME:
                worker.welcomed(header.origin, header.step, over=bool(header.part))
            else:
                self.carry_out(party, worker.arrived(header))

    def _bytes(self, party: int, rank: int, send: Send) -> int:
        """Of a message to `rank`: the same to all where it is not a snapshot."""
        unit = self._unit[send.unit]
        layer = self.choices[unit.layers[0]]
        if send.content is Content.FACTORS:
            workload, worker = self.plan.workload, self._workers[party]
            assert workload is not None, "resolve the plan first"
            samples = workload.share(worker.rank, worker.team_size)
            return factor_bytes(self._described[layer.layer], workload, layer.encoding, samples)
        if send.content is Content.NOTHING:
            return 0
        if send.content is Content.PARAMETERS and layer.update == "server":
            whole = send.snapshot and self._server_of[send.unit].answers_whole(send.unit, rank)
            elements = send.stop - send.start
            return (
                elements * DTYPE_BYTES[unit.dtype]
                if whole
                else unit.message_bytes(layer.answer_encoding, send.start, send.stop)
            )
        if unit.phases:  # numbers of its own type, as they are
            return (send.stop - send.start) * DTYPE_BYTES[unit.dtype]
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
    edges: bool = True,
    slowed: Mapping[int, float] | None = None,
    losses: Sequence[WorkerLoss] = (),
) -> Simulated:
    """`steps` steps of a resolved plan. `exchanges`: where workers average, when; left out, they exchange in every
    step. `compute`: by layer; those left out take no time. `network(clock, hosts, deliver)` makes the links.
    `update_ns`: how long a server updates a unit; it updates several at once. `units`: those alone, with their layers,
    of the plan's. `edges`: whether activations travel to other stages and devices; else nobody waits for them.
    `slowed`: how many times as long some workers compute. Raises UserError for `losses` without whom the job would not
    go on, and where too few workers are left for an update."""
    return VirtualJob(
        plan, model, workers=workers, steps=steps, policy=policy, exchanges=exchanges or InEveryStep(),
        compute=compute or {}, network=network, hosts=hosts, rank_order=rank_order, update_ns=update_ns, units=units,
        edges=edges, slowed=slowed or {}, losses=losses,
    ).run()  # fmt: skip
