"""The worker process: builds its replica, joins the others, trains, and leaves the result."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import Parameter

from engine.consistency.average import Average
from engine.errors import UserError
from engine.exchange import EXCHANGE
from engine.exchange.base import Choice, Context, Exchange
from engine.exchange.native import join_process_group
from engine.exchange.shard import Shard
from engine.inputs.loader import Loader
from engine.plan.cluster import Party
from engine.plan.plan import Peer
from engine.runtime.averaging_replica import AveragingReplica, state_carriers
from engine.runtime.capture import Capture
from engine.runtime.crossing import Crossing
from engine.runtime.dispatch import Dispatch
from engine.runtime.evaluation import Evaluator, save_state
from engine.runtime.faults import Faults
from engine.runtime.gather import Gather
from engine.runtime.host_memory import HostMemory, contiguous_parameters
from engine.runtime.initial import InitialState, host_state
from engine.runtime.launch import Launch, write_json
from engine.runtime.messages import Lane
from engine.runtime.party import PATIENCE_S, PartyBase, exchanged_parameters, home_of, load_choices, of_shard
from engine.runtime.peer_replica import peer_class
from engine.runtime.pinned_memory import PinnedMemory
from engine.runtime.pipeline import Stage
from engine.runtime.place import Place, Whole
from engine.runtime.replica import Layer, PlanReplica
from engine.runtime.servers import announce, end_training, make_shard
from engine.runtime.subject import (
    Subject,
    autocasting,
    captures_of,
    check_model,
    effective_job,
    load_subject,
    rehearsal_summary,
    torch_device,
)
from engine.runtime.team import Team
from engine.runtime.trainer import Outcome, Replica, Trainer
from engine.runtime.updates import HyperSchedule, LayerUpdater
from engine.runtime.versions import Versions
from engine.telemetry.memory import MemorySampler


class Worker:
    """One worker of a job, from start to result."""

    def __init__(self, launch: Launch, party: Party) -> None:
        assert party.rank is not None
        self._launch = launch
        self._job = effective_job(launch)
        self._rank = party.rank
        self._workers = launch.job.cluster.workers
        self._device = torch_device(launch.devices[party.rank])
        self._faults = Faults.from_environment(party.name)
        self._base = PartyBase(launch, party)
        self._team = Team(launch.plan, party, self._workers, self._base.endpoint)

    def run(self) -> None:
        """Train and write the result. Raises what went wrong, after telling the peers."""
        with self._base, self._memory_sampled():
            self._run()

    def _memory_sampled(self) -> AbstractContextManager[object]:
        if not self._launch.record:
            return contextlib.nullcontext()
        recording = self._base.recording
        on_cuda = self._device.type == "cuda"
        device_bytes = partial(torch.cuda.memory_reserved, self._device) if on_cuda else None
        return contextlib.closing(MemorySampler(recording.recorder, lambda: recording.step, device_bytes))

    def after_step(self, step: int) -> None:
        """Between two steps, in the thread that trains: where tests put faults, and a benchmark looks around."""
        self._faults.after_step(step)

    def _run(self) -> None:
        job, base = self._job, self._base
        seed_everything(job.training.seed, job.training.deterministic)
        subject = self._load()
        dtype = torch.float64 if job.training.precision == "float64" else None
        loader = self._make_loader(subject, dtype)
        worker_lane = Dispatch(base.endpoint, Lane.WORKER)
        server_lane = Dispatch(base.endpoint, Lane.SERVER)
        gather = Gather(base.endpoint, self._rank, self._workers, self._launch.deadline_s)
        worker_lane.add(gather.kinds, gather)
        place = self._make_place(subject, worker_lane, gather)
        model = place.shared
        initial = InitialState(
            host_state(dict(model.named_parameters()), dict(model.named_buffers())), self._launch.deadline_s
        )
        worker_lane.add(initial.kinds, initial)
        base.endpoint.on_failure(gather.fail)
        base.endpoint.on_failure(initial.fail)
        base.connect()
        base.rendezvous.agree("model and key order", self._launch.model.checksum)
        self._agree_on_buffers(model, gather)
        # Replayed stages differ, and begin alike everywhere.
        if self._team.stage is None or subject.pace is None:
            self._share_initial_state(model, initial)
        model = place.model
        subject = replace(subject, model=model, parts=None)  # what is computed elsewhere goes
        replica = self._make_replica(model, initial, worker_lane, server_lane, gather, loader.steps)
        initial.forget()
        passes, measure = place.open(replica, loader.steps)
        gc.collect()
        gc.freeze()  # what is here now is here to stay: the collector need not look at it again and again
        base.rendezvous.barrier("ready")
        seed_everything(
            job.training.seed + 1 + self._rank, job.training.deterministic
        )  # random masks differ by rank
        trainer = Trainer(
            job=job,
            replica=replica,
            passes=passes,
            loader=loader,
            recording=base.recording,
            evaluate=Evaluator(
                model=model,
                loss=measure,
                test=subject.test,
                gather=gather,
                team=place.team,
                rank=self._team.rank,
                workers=self._team.size,
                device=self._device,
                dtype=dtype,
            ),
            after_step=self.after_step,
        )
        outcome = trainer.train()
        elsewhere = place.end()
        if subject.pace is None:
            path = self._launch.result / "model.pt" if self._rank == 0 else None
            with replica.common():
                save_state(model, place.team, path, elsewhere)
        replica.close()
        if self._rank == 0:
            servers = [p.index for p in self._launch.parties if p.rank is None and p.shard is not None]
            end_training(base.endpoint, servers)
        base.part()
        self._write_summary(outcome, subject)  # everything has left by now, so that its byte counts are final

    def _load(self) -> Subject:
        """The job's model, on this worker's device and laid out for the exchange, and its data."""
        base = self._base
        subject = load_subject(self._launch, self._rank, base.recording, back=base.party.device is not None)
        model = subject.model.to(self._device)
        if subject.pace is None:  # what is replayed was made of the description
            check_model(model, self._launch)
        for name in contiguous_parameters(dict(model.named_parameters())):
            print(
                f"{name} was not contiguous in memory; it is now, so that slices of it are views", flush=True
            )
        return subject

    def _make_loader(self, subject: Subject, dtype: torch.dtype | None) -> Loader:
        plan = self._launch.plan
        return Loader(
            subject.train,
            training=self._job.training,
            evaluation=self._job.evaluation,
            rank=self._team.rank,
            workers=self._team.size,
            device=self._device,
            prefetch=1 if isinstance(plan, Peer) else plan.input.prefetch,
            dtype=dtype,
            filler=isinstance(plan, Peer),
            alone=self._launch.consistency.mode == "average",
        )

    def _make_place(self, subject: Subject, lane: Dispatch, gather: Gather) -> Place:
        """Before peers connect: which part of the model is here."""
        launch, base, device = self._launch, self._base, self._device
        autocast = autocasting(self._job, device)
        if self._team.stage is not None:
            return Stage(launch, base, subject, self._team, lane, gather, device, autocast)
        if subject.parts is not None:
            return Crossing(launch, base, subject, lane, gather, device, autocast)
        return Whole(subject, base.recording, gather, autocast)

    def _agree_on_buffers(self, model: nn.Module, gather: Gather) -> None:
        """Buffers are not part of the description, but they are handed out and averaged. Collective; every worker
        raises, so that none goes on and sends what another has no place for."""
        mine = ", ".join(f"{name} {tuple(b.shape)} {b.dtype}" for name, b in model.named_buffers()).encode()
        width = max(int(part[0]) for part in gather.run([torch.tensor(len(mine))]))
        padded = torch.tensor(list(mine.ljust(width)), dtype=torch.uint8)
        everyone = [bytes(part[0].tolist()).decode().strip() for part in gather.run([padded])]
        for rank, theirs in enumerate(everyone):
            if theirs != everyone[0]:
                raise UserError(
                    "model",
                    self._launch.model.name,
                    f"its buffers on worker {rank} ({theirs or 'none'}) differ from"
                    f" worker 0's ({everyone[0] or 'none'})",
                    "Build the same model on every worker",
                )

    def _share_initial_state(self, model: nn.Module, initial: InitialState) -> None:
        """Worker 0's values become everybody's."""
        others = [
            (p.index, Lane.WORKER if p.rank is not None else Lane.SERVER)
            for p in self._launch.parties
            if p.index != self._base.party.index and (p.rank is not None or p.shard is not None)
        ]
        if self._rank == 0:
            initial.send(
                self._base.endpoint, [(index, lane) for index, lane in others if lane == Lane.WORKER]
            )
            # In the description's order: a server knows no other, and messages carry positions only.
            servers = [(index, lane) for index, lane in others if lane == Lane.SERVER]
            if servers:
                parameters = {name: initial.tensors[name] for name in exchanged_parameters(self._launch)}
                InitialState(parameters, self._launch.deadline_s).send(self._base.endpoint, servers)
        else:
            initial.wait(self._base.names[0])
            with torch.no_grad():
                for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                    tensor.copy_(initial.tensors[name])

    def _make_replica(
        self,
        model: nn.Module,
        initial: InitialState,
        worker_lane: Dispatch,
        server_lane: Dispatch,
        gather: Gather,
        total_steps: int,
    ) -> Replica:
        job, launch, base = self._job, self._launch, self._base
        schedule = HyperSchedule(job.optimizer, job.schedule, total_steps)
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if isinstance(launch.plan, Peer):
            return self._make_peer(model, schedule, launch.plan)
        everything = load_choices(launch)
        choices = {i: c for i, c in everything.items() if c.layer.place == self._team.stage}
        for lane in (worker_lane, server_lane):
            lane.expect(choice.unit for choice in choices.values())
        versions = Versions(len(everything), self._launch.deadline_s + PATIENCE_S)
        base.endpoint.on_failure(versions.fail)
        if base.party.shard is not None:
            shard = make_shard(
                launch, of_shard(choices, base.party.shard), initial.tensors, base, base.party.shard
            )
            server_lane.add(Shard.kinds, shard)
            versions.watch(shard.overdue)
        carriers = state_carriers(launch.model, launch.consistency.state, trainable)
        held = trainable | carriers
        memory = PinnedMemory(held, versions.fail) if self._device.type == "cuda" else HostMemory(held)
        captures = captures_of(model, launch, choices)
        exchanges = self._make_exchanges(choices, captures, memory, versions, worker_lane)
        layers = self._make_layers(choices, trainable)
        shards = {c.unit.shard for c in choices.values() if c.layer.update == "server"}
        hosts = sorted({home_of(launch, index) for index in shards if index is not None})
        kind: Callable[..., PlanReplica] = PlanReplica
        if launch.consistency.mode == "average":
            average = Average(launch.consistency, workers=self._workers, total_steps=total_steps)
            kind = partial(AveragingReplica, average=average, carriers=carriers, gather=gather)
        return kind(
            model=model,
            layers=layers,
            choices=choices,
            exchanges=exchanges,
            captures=captures,
            memory=memory,
            versions=versions,
            recording=base.recording,
            hyper=schedule.at,
            announce=partial(announce, base.endpoint, hosts) if self._rank == 0 else lambda step, hyper: None,
            clip_norm=job.training.clip_norm,
        )

    def _make_exchanges(
        self,
        choices: Mapping[int, Choice],
        captures: Mapping[int, Capture],
        memory: HostMemory,
        versions: Versions,
        lane: Dispatch,
    ) -> dict[int, Exchange]:
        """One instance per exchange of the plan; by unit index."""
        launch, base = self._launch, self._base
        by_unit: dict[int, Exchange] = {}
        for name in dict.fromkeys(c.layer.exchange for c in choices.values()):
            mine = {index: c for index, c in choices.items() if c.layer.exchange == name}
            context = Context(
                rank=self._team.rank,
                workers=self._team.size,
                choices=mine,
                captures=captures,
                memory=memory,
                endpoint=self._team.sender,
                versions=versions,
                recording=base.recording,
                shard_party=partial(home_of, launch),
                party_name=self._party_name,
                device=str(self._device),
                rendezvous=launch.rendezvous + "-native",
                deadline_s=self._launch.deadline_s,
            )
            exchange: Exchange = EXCHANGE[name].load()(context)
            lane.add(exchange.kinds, exchange, mine)
            by_unit.update(dict.fromkeys(mine, exchange))
        return by_unit

    def _party_name(self, number: int) -> str:
        """Of a party as exchanges know it: in a pipeline, by its rank among those that hold the stage."""
        return self._base.names[number if self._team.stage is None else self._team.members[number]]

    def _make_layers(self, choices: Mapping[int, Choice], trainable: Mapping[str, Parameter]) -> list[Layer]:
        """The plan's layers in forward order, each with its optimizer where this worker updates it."""
        updates = {c.layer.layer: c.layer.update for c in choices.values()}
        for choice in choices.values():
            for name in choice.unit.layers:
                updates.setdefault(name, choice.layer.update)
        layers = []
        for described in self._launch.model.layers:
            mine = {p.name: trainable[p.name] for p in described.parameters if p.name in trainable}
            if not mine:
                continue
            updater = LayerUpdater(self._job.optimizer, mine) if updates[described.name] == "worker" else None
            layer = Layer(described.index, described.name, mine, updater)
            layer.units = [c.unit for c in choices.values() if described.name in c.unit.layers]
            layers.append(layer)
        return layers

    def _make_peer(self, model: nn.Module, schedule: HyperSchedule, peer: Peer) -> Replica:
        join_process_group(
            device=str(self._device),
            rendezvous=self._launch.rendezvous + "-native",
            rank=self._rank,
            workers=self._workers,
            deadline_s=self._launch.deadline_s,
        )
        layers = self._launch.model.layers
        return peer_class(peer.runner)(
            model=model,
            layer_index={p.name: layer.index for layer in layers for p in layer.parameters if p.trainable},
            peer=peer,
            optimizer=self._job.optimizer,
            recording=self._base.recording,
            hyper=schedule.at,
            clip_norm=self._job.training.clip_norm,
            device=str(self._device),
            all_used=self._launch.profile is not None,
        )

    def _write_summary(self, outcome: Outcome, subject: Subject) -> None:
        traffic = self._base.endpoint.counters.snapshot()
        summary = {
            "steps": outcome.steps,
            "samples": outcome.samples,
            "test_accuracy": outcome.test_accuracy,
            "test_loss": outcome.test_loss,
            "target_step": outcome.target_step,
            "train_ns": outcome.train_ns,
            "cpu_ns": outcome.cpu_ns,
            "sent_payload_bytes": {
                f"{peer}/{layer}": count for (peer, layer), count in sorted(traffic.sent_payload.items())
            },
            "received_payload_bytes": {
                f"{peer}/{layer}": count for (peer, layer), count in sorted(traffic.received_payload.items())
            },
        }
        if subject.pace is not None:
            summary |= rehearsal_summary(self._launch, subject.model, subject.pace)
        write_json(self._launch.summary(self._rank), summary)


def seed_everything(seed: int, deterministic: bool) -> None:
    """Seed every generator that a model or data set may use."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
