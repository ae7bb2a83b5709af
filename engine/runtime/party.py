"""What every process of a job sets up first, worker or server: clock, recorder, endpoint, rendezvous."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType

from engine.coordination.dispatch import Dispatch, largest_message
from engine.coordination.going import Going
from engine.lab import address
from engine.launch import Launch
from engine.order.ranks import ranks_of
from engine.plan.cluster import Party, shard_party
from engine.plan.consistency import trains_alone
from engine.plan.flow import derive
from engine.plan.plan import Plan
from engine.plan.telemetry import TelemetrySpec
from engine.plan.units import cut
from engine.protocol.messages import Lane
from engine.runtime.links import PartyLinks
from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.telemetry import asked
from engine.telemetry.collectives import Collectives
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.recorder import Recorder
from engine.telemetry.step_times import StepTimes
from engine.transport.clock import AttemptClock
from engine.transport.endpoint import Endpoint
from engine.transport.mesh import Address
from engine.transport.pacing import Pacer
from engine.transport.rendezvous import Rendezvous

LOOPBACK = "127.0.0.1"

PYTHON_ONLY = (
    "workers may join again (cluster.worker_loss: rejoin), which the data plane in C does not know: messages go"
    " through Python"
)


class PartyBase:
    """One process's clock, recorder and end of the network."""

    def __init__(self, launch: Launch, party: Party, incarnation: int = 0) -> None:
        """`incarnation`: how often the party had been started anew, after it was lost."""
        self.launch = launch
        self.party = party
        self.incarnation = incarnation
        self.names = [p.name for p in launch.parties]
        self._host = launch.host(party)
        self._links = PartyLinks(launch, party)
        self.clock = AttemptClock(time.monotonic_ns() - (time.time_ns() - launch.epoch_unix_ns))
        self.recorder = (Recorder if launch.record else StepTimes)(
            party.index,
            party.name,
            self.clock.now_ns,
            launch.spool,
            attempt=launch.attempt,
            detail=_policy(launch.job.telemetry),
            spool_bytes=launch.job.telemetry.spool_bytes,
            asked=launch.directory / asked.FILE,
            interface=self._links.first,
            host=self._links.host,
            near=self._links.near,
        )
        self.recording = Recording(self.recorder, self.clock.now_ns)
        self.collectives = Collectives(self.recorder, within_host=self._host is None)
        limit = self._links.limit_bps
        self.endpoint = Endpoint(
            index=party.index,
            names=self.names,
            hosts=[p.host for p in launch.parties],
            clock=self.clock,
            observer=self.recording,
            pacer=None
            if limit is None or self._host is not None
            else Pacer(launch.directory / "pacing", limit),
            deadline_s=launch.deadline_s,
            silence_s=launch.job.cluster.silence_s,
            token=launch.token(),
            data_plane="python" if launch.restarts else launch.data_plane,
        )
        if launch.data_plane != "python":
            print(PYTHON_ONLY if launch.restarts else _said(self.endpoint.data_plane), flush=True)
        self.rendezvous = Rendezvous(
            launch.rendezvous,
            index=party.index,
            names=self.names,
            deadline_s=launch.deadline_s,
            token=launch.token(),
        )
        self.endpoint.on_failure(self.rendezvous.fail)
        self.at_the_end = ExitStack()
        """What is left to do when the party ends, whatever happened."""

    def dispatch(self, lane: Lane) -> Dispatch:
        """The table of a lane's messages; before `connect`."""
        largest = largest_message(self.launch.model, self.launch.job.training.global_batch)
        return Dispatch(self.endpoint, lane, largest)

    def connect(self) -> None:
        """Meet the others. Lanes must be registered; after this messages arrive."""
        self.endpoint.listen(self._address)
        addresses = self.rendezvous.exchange_addresses(self.endpoint.address)
        self.endpoint.connect(addresses)
        self._connected(addresses)

    @property
    def _address(self) -> str:
        """Where this party listens, and is reached."""
        if self.launch.addresses:
            return self.launch.addresses[self.party.index]
        return LOOPBACK if self._host is None else address(self._host)

    @property
    def servers(self) -> list[int]:
        """The parties that are servers and nothing else."""
        return [p.index for p in self.launch.parties if p.rank is None and p.shard is not None]

    def connect_again(self, unwanted: Callable[[], bool]) -> bool:
        """Meet worker 0 and the servers as a later incarnation. False where `unwanted` says so before all have let this
        party in."""
        addresses = self.rendezvous.addresses()
        called = {i: addresses[i] for i in (0, *self.servers)}
        for other in addresses.keys() - called.keys() - {self.party.index}:
            self.rendezvous.lose(other)  # they are in no contact with this incarnation
        if not self.endpoint.rejoin(called, self.incarnation, unwanted):
            return False
        self._connected(addresses)
        return True

    def _connected(self, addresses: Mapping[int, Address]) -> None:
        alignment = self.endpoint.align_clock()
        self.recorder.metric("clock_residual_ns", 0, alignment.residual_ns)
        if self.launch.record:
            self._links.start(self.recorder, self.endpoint.counters, self.collectives, addresses)

    def part(self) -> None:
        """Leave in order, when everybody is done."""
        self.rendezvous.barrier("done")
        self.endpoint.close()

    def __enter__(self) -> PartyBase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever happened, keep what was measured; tell the peers where this end failed."""
        if error is not None:
            self.endpoint.close(orderly=False, reason=f"{type(error).__name__}: {error}")
        self.at_the_end.close()
        self.rendezvous.close()
        self._links.close()
        self.recording.close()
        self.recorder.close()


def _said(data_plane: str) -> str:
    """For the log of a process that was not asked to take the Python one."""
    if data_plane == "c":
        return "messages go through the data plane in C"
    return (
        "messages go the slower way, through Python: the data plane in C has not been built here"
        " (python -m engine.transport.in_c)"
    )


def _policy(spec: TelemetrySpec) -> DetailPolicy:
    return DetailPolicy(
        mode=spec.detail,
        first=spec.first,
        few=spec.few,
        every=spec.every,
        slowest_after=DetailPolicy.slowest_after if spec.slowest else None,
        last_ns=round(spec.last_s * 1e9),
    )


def load_choices(launch: Launch) -> dict[int, Choice]:
    """The plan's units with their mechanisms loaded, by unit index. The same on every party."""
    plan = launch.plan
    assert isinstance(plan, Plan)
    by_layer = {layer.layer: layer for layer in plan.layers}
    units = cut(plan, launch.model)
    ranks = ranks_of([(by_layer[unit.layers[0]], unit) for unit in units])
    found = {}
    for unit in units:
        layer = by_layer[unit.layers[0]]
        rank = ranks[layer.order.rank]
        found[unit.index] = Choice(
            unit=unit,
            layer=layer,
            flow=derive(layer, launch.job, launch.consistency),
            rank=rank,
            layer_index=unit.position,
            seed=launch.job.training.seed,
        )
    return found


def of_shard(choices: Mapping[int, Choice], shard: int) -> dict[int, Choice]:
    """The units that live on one server shard."""
    return {index: choice for index, choice in choices.items() if choice.unit.shard == shard}


def exchanged_parameters(launch: Launch) -> list[str]:
    """The parameters that dedicated servers start with, in the description's order: those of replicated layers."""
    assert isinstance(launch.plan, Plan)
    replicated = {layer.layer for layer in launch.plan.layers if layer.placement == "replicated"}
    return [p.name for layer in launch.model.layers if layer.name in replicated for p in layer.parameters]


def home_of(launch: Launch, shard: int) -> int:
    """The party that hosts a shard."""
    assert isinstance(launch.plan, Plan)
    return shard_party(launch.plan, launch.job.cluster.workers, shard)


def going_of(launch: Launch, base: PartyBase) -> Going:
    """By which a worker tells others that it goes on, and hears of them."""
    assert base.party.rank is not None
    return Going(
        base.endpoint,
        rank=base.party.rank,
        workers=launch.job.cluster.workers,
        servers=base.servers if trains_alone(launch.consistency) else (),
        deadline_s=launch.deadline_s,
    )
