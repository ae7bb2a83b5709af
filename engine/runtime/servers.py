"""Server shards in their processes: beside a worker, or alone in a dedicated server process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor

from engine.consistency.policies import policy_of
from engine.exchange.shard import Shard
from engine.launch import Launch
from engine.memory.offload import away
from engine.plan.cluster import Party
from engine.plan.consistency import drifts
from engine.protocol.messages import Lane, Message, Payload
from engine.runtime.cuts import shard_cuts
from engine.runtime.going_on import load_shard
from engine.runtime.initial import InitialState, empty_state
from engine.runtime.losses import may_lose_workers, record_loss, say_contributed, tell
from engine.runtime.party import PartyBase, exchanged_parameters, load_choices, of_shard
from engine.state.choice import Choice
from engine.state.update_record import UpdateRecord
from engine.state.updates import HyperSchedule, PieceUpdater
from engine.transport.endpoint import Endpoint
from engine.transport.message import Header

_WATCH_S = 1.0


def make_shard(
    launch: Launch,
    choices: Mapping[int, Choice],
    initial: Mapping[str, Tensor],
    base: PartyBase,
    index: int,
    total_steps: int,
    going_s: Callable[[], float],
) -> Shard:
    """A shard with worker 0's initial parameters, and with what a checkpoint has of it where the attempt goes on.
    `total_steps`: of the job. `going_s`: see Shard."""
    workers = launch.job.cluster.workers
    tier = away(launch.job.optimizer, str(launch.directory), torch.device("cpu"))
    recorded = launch.job.telemetry.updates and drifts(launch.consistency)
    shard = Shard(
        index=index,
        workers=workers,
        choices=choices,
        policy=partial(policy_of, launch.consistency, workers),
        hyper=HyperSchedule(launch.job.optimizer, launch.job.schedule, total_steps).at,
        make_updater=lambda choice, pieces: PieceUpdater(
            launch.job.optimizer, [s.parameter for s in choice.unit.segments], pieces, tier
        ),
        initial=initial,
        endpoint=base.endpoint,
        recording=base.recording,
        deterministic=launch.job.training.deterministic,
        deadline_s=launch.deadline_s,
        record=UpdateRecord(launch.updates(index)) if recorded else None,
        lost=partial(record_loss, base, index),
        cuts=shard_cuts(launch, index, choices),
        going_s=going_s,
    )
    load_shard(launch, index, choices, shard)
    return shard


class Server:
    """A dedicated server process: one shard, no model."""

    def __init__(self, launch: Launch, party: Party) -> None:
        assert party.shard is not None
        self._launch = launch
        self._shard_index = party.shard
        self._base = PartyBase(launch, party)

    def run(self) -> None:
        """Serve until the workers are done. Raises what went wrong, after telling the peers."""
        with self._base:
            self._run()

    def _run(self) -> None:
        base, launch = self._base, self._launch
        failed = threading.Event()
        base.endpoint.on_failure(lambda error: failed.set())
        lane = base.dispatch(Lane.SERVER)
        described = {p.name: (p.shape, p.dtype) for p in launch.model.parameters}
        shapes = {name: described[name] for name in exchanged_parameters(launch)}
        initial = InitialState(empty_state(shapes), launch.deadline_s)
        base.endpoint.on_failure(initial.fail)
        lane.add(initial.kinds, initial)
        length, end, goes = _Told(Message.LENGTH), _Told(Message.END), _Told(Message.GOES_ON)
        for told in (length, end, goes):
            lane.add(told.kinds, told)
        base.connect()
        base.rendezvous.agree("model and key order", launch.model.checksum)
        initial.wait(base.names[0])
        if not length.there.wait(launch.deadline_s):
            raise TimeoutError(
                f"{base.names[0]} did not say within {launch.deadline_s:.0f} s how long the job is"
            )
        choices = of_shard(load_choices(launch), self._shard_index)
        lane.expect(choice.unit for choice in choices.values())
        shard = make_shard(
            launch, choices, initial.tensors, base, self._shard_index, length.step, lambda: goes.last_s
        )
        lane.add(Shard.kinds, shard)
        base.rendezvous.barrier("ready")
        may_lose_workers(base, partial(_tell_of_loss, base.endpoint), partial(_tell_of_return, base.endpoint))
        self._serve(shard, end, failed)
        shard.close()
        if launch.job.cluster.worker_loss != "end":
            say_contributed(base, shard)
        base.part()

    def _serve(self, shard: Shard, end: _Told, failed: threading.Event) -> None:
        """Until worker 0 says that training is over; the lane's thread does the work."""
        while not end.there.wait(_WATCH_S):
            if failed.is_set():
                assert self._base.endpoint.failure is not None
                raise self._base.endpoint.failure
            late = shard.overdue()
            if late is not None:
                raise TimeoutError(late)


def _tell_of_loss(endpoint: Endpoint, rank: int, reason: str) -> None:
    tell(endpoint, Lane.SERVER, Message.LOST, rank, meta=reason.encode())


def _tell_of_return(endpoint: Endpoint, rank: int, incarnation: int) -> None:
    tell(endpoint, Lane.SERVER, Message.RETURNED, rank, step=incarnation)


class _Told:
    """Waits for a message of a kind."""

    def __init__(self, kind: Message) -> None:
        self.kinds = (kind,)
        self.step = 0
        self.last_s = 0.0
        """When it came last, on the monotonic clock."""
        self.there = threading.Event()

    def place(self, header: Header) -> None:
        """It has no payload."""

    def handle(self, header: Header, payload: Payload) -> None:
        self.step, self.last_s = header.step, time.monotonic()
        self.there.set()


def tell_length(endpoint: Endpoint, parties: Iterable[int], steps: int) -> None:
    """Worker 0: tell dedicated servers how many steps the job has."""
    for party in parties:
        endpoint.send(party, Header(kind=Message.LENGTH, lane=Lane.SERVER, origin=endpoint.index, step=steps))


def end_training(endpoint: Endpoint, parties: Iterable[int], lane: Lane = Lane.SERVER) -> None:
    """Worker 0: tell dedicated servers, or devices, that nothing will come any more."""
    for party in parties:
        endpoint.send(party, Header(kind=Message.END, lane=lane, origin=endpoint.index))
