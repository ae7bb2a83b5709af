"""What a worker is put together from, made of its launch: model and data, place, exchanges, replica."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import torch
from torch import nn
from torch.nn import Parameter

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.consistency.policies import policy_of
from engine.coordination.agreement import Agreement
from engine.coordination.gather import Gather
from engine.coordination.team import Team
from engine.exchange.base import Exchange, Surroundings
from engine.exchange.native import join_process_group
from engine.exchange.server import ServerExchange
from engine.exchange.shard import Shard
from engine.inputs.loader import Loader
from engine.instrumentation.writes import Writes
from engine.launch import PATIENCE_S, Launch
from engine.memory.offload import away
from engine.plan.consistency import drifts, trains_alone, unwaited
from engine.plan.inputs import Input
from engine.plan.plan import Wrapper
from engine.plan.units import carried
from engine.protocol.messages import Lane
from engine.replica.averaging import Differences, carriers_of
from engine.replica.base import Replica
from engine.replica.by_plan import PlanReplica
from engine.replica.contributions import Contributions, Gradients, Holder
from engine.replica.watch import Watch
from engine.replica.wrapped import wrapped_class
from engine.runtime.computing import computing
from engine.runtime.crossing import Crossing
from engine.runtime.cuts import meeting_of
from engine.runtime.going_on import Held, beginning
from engine.runtime.initial import InitialState, first_values
from engine.runtime.layers import layers_of
from engine.runtime.losses import record_loss
from engine.runtime.party import PartyBase, going_of, home_of, load_choices, of_shard
from engine.runtime.pipeline import Stage
from engine.runtime.place import Place, Whole
from engine.runtime.rejoin import Rejoin
from engine.runtime.servers import make_shard
from engine.runtime.stop import Stop
from engine.runtime.subject import (
    Subject,
    captures_of,
    check_model,
    check_norms,
    effective_job,
    load_subject,
    torch_device,
)
from engine.state.capture import Capture
from engine.state.choice import Choice
from engine.state.host_memory import HostMemory, contiguous_parameters
from engine.state.pinned_memory import PinnedMemory
from engine.state.random_record import RandomRecord
from engine.state.updates import Away, Hyper, HyperSchedule, with_rate
from engine.state.versions import Versions


class Assembly:
    """One worker's parts, in the order in which they are needed: `subject`, `loader`, `place` and `initial` before the
    endpoint connects, `replica` afterwards."""

    def __init__(self, launch: Launch, base: PartyBase) -> None:
        assert base.party.rank is not None
        self._launch = launch
        self._base = base
        self.job = effective_job(launch)
        self.rank = base.party.rank
        self.device = torch_device(launch.devices[self.rank])
        self.dtype = torch.float64 if self.job.training.precision == "float64" else None
        """What floating inputs are converted to."""
        layers = launch.model.layers
        state = launch.consistency.travelling_state
        self._layer_of = {p.name: layer.index for layer in layers for p in carried(layer, state)}
        """Forward position of the layer of each trainable parameter, and of the optimizer's state that travels."""
        workers = launch.job.cluster.workers
        self.team = Team(launch.plan, base.party, workers, base.endpoint)
        self.gather = Gather(base.endpoint, self.rank, workers, launch.deadline_s)
        self._worker_lane = base.dispatch(Lane.WORKER)
        self._server_lane = base.dispatch(Lane.SERVER)
        self._worker_lane.add(self.gather.kinds, self.gather)
        base.endpoint.on_failure(self.gather.fail)
        self.close_shard: Callable[[], None] = lambda: None
        """Once nobody contributes any more to the shard that is here, if one is."""
        self.versions: Versions | None = None
        """Of the units that are exchanged by the plan; made with the replica."""
        self.exchanges: dict[int, Exchange] = {}
        """By unit index; likewise."""
        self.held = Held()
        """What of this worker is saved in checkpoints, besides the model; made with the replica."""
        self.saved = beginning(launch, self.rank)
        """What it goes on from."""
        self.stop = Stop(base.endpoint, workers) if drifts(launch.consistency) else None
        if self.stop is not None:
            self._worker_lane.add(self.stop.kinds, self.stop)
        self._going = going_of(launch, base)
        self.gather.while_going(self._going.last_s)
        self._worker_lane.add(self._going.kinds, self._going)
        self.meeting = meeting_of(launch, base.endpoint, self.rank, self._going.last_s)
        """For a word about checkpoints."""
        if self.meeting is not None:
            self._worker_lane.add(self.meeting.kinds, self.meeting)
            base.endpoint.on_failure(self.meeting.fail)
        self._rejoin = Rejoin(base) if base.incarnation else None
        if self._rejoin is not None:
            self._worker_lane.add(self._rejoin.kinds, self._rejoin)

    def subject(self) -> Subject:
        """The job's model, on the host, and its data. What travels is laid out for it: where nothing does, the last bit
        of a sum stays that of the model's own layout."""
        base = self._base
        subject = load_subject(self._launch, self.rank, base.recording, back=base.party.device is not None)
        if subject.processes is not None:
            base.at_the_end.callback(subject.processes.close)
        if subject.pace is None:  # what is replayed was made of the description
            check_model(subject.model, self._launch)
            check_norms(subject.model, self._launch, self.device)
        plan = self._launch.plan
        if isinstance(plan, Wrapper) or any(layer.exchanges for layer in plan.layers):
            for name in contiguous_parameters(dict(subject.model.named_parameters())):
                print(f"{name} was not contiguous in memory; it is now, so that slices are views", flush=True)
        return subject

    def loader(self, subject: Subject) -> Loader:
        """This worker's share of the data."""
        plan = self._launch.plan
        return Loader(
            subject.train,
            training=self.job.training,
            evaluation=self.job.evaluation,
            rank=self.team.rank,
            workers=self.team.size,
            device=self.device,
            input=Input() if subject.pace is not None else self.job.input,
            dtype=self.dtype,
            filler=isinstance(plan, Wrapper),
            alone=trains_alone(self._launch.consistency),
            processes=subject.processes,
        )

    def place(self, subject: Subject) -> Place:
        """Which part of the model is here."""
        launch, base, lane = self._launch, self._base, self._worker_lane
        if self.team.stage is not None:
            return Stage(launch, base, subject, self.team, lane, self.gather, self.device)
        if subject.parts is not None:
            return Crossing(launch, base, subject, lane, self.gather, self.device)
        return Whole(
            subject, base.recording, self.gather, computing(launch, base, subject.model, self.device)
        )

    def initial(self, model: nn.Module) -> InitialState:
        """The first values of `model`, which worker 0 hands to the others."""
        initial = InitialState(first_values(model), self._launch.deadline_s)
        self._worker_lane.add(initial.kinds, initial)
        self._base.endpoint.on_failure(initial.fail)
        return initial

    def replica(self, place: Place, model: nn.Module, initial: InitialState, total_steps: int) -> Replica:
        """What is trained here and how it is kept in step with the other workers', and the shard that is here."""
        job, launch, base = self.job, self._launch, self._base
        schedule = HyperSchedule(job.optimizer, job.schedule, total_steps)
        if isinstance(launch.plan, Wrapper):
            initial.forget()  # these are views of what fully_shard replaces
            return self._wrapped(place, model, schedule, launch.plan)
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        everything = load_choices(launch)
        choices = {i: c for i, c in everything.items() if c.layer.place == self.team.stage}
        for lane in (self._worker_lane, self._server_lane):
            lane.expect(choice.unit for choice in choices.values())
        versions = self.versions = Versions(len(everything), launch.deadline_s + PATIENCE_S)
        versions.while_going(self._going.last_s)
        base.endpoint.on_failure(versions.fail)
        if base.party.shard is not None:
            shard = make_shard(
                launch,
                of_shard(choices, base.party.shard),
                initial.tensors,
                base,
                base.party.shard,
                total_steps,
                self._going.last_s,
            )
            self._server_lane.add(Shard.kinds, shard)
            self.close_shard = shard.close
            versions.watch(shard.overdue)
        hyper: Callable[[int], Hyper] = schedule.at
        contributions: Callable[[Holder], Contributions] = Gradients
        carriers: dict[str, Parameter] | None = None
        if trains_alone(launch.consistency):
            kind = CONSISTENCY[launch.consistency.mode].load()
            average = kind(launch.consistency, workers=launch.job.cluster.workers, total_steps=total_steps)
            hyper = with_rate(hyper, average.rate_factor)
            carriers = carriers_of(launch.model, launch.consistency.state, trainable)
            contributions = partial(Differences, average=average, carriers=carriers, gather=self.gather)
        cuda = self.device.type == "cuda"
        held = self.held

        def remembered(holder: Holder) -> Contributions:
            held.contributions = contributions(holder)
            return held.contributions

        memory = PinnedMemory(trainable, carriers, versions.fail) if cuda else HostMemory(trainable, carriers)
        captures = captures_of(model, launch, choices)
        layers = layers_of(
            self._launch.model,
            choices,
            trainable,
            self.job.optimizer,
            away=self._away(),
            version=self.saved.version,
        )
        served = [name for layer in layers if layer.updater is None for name in layer.parameters]
        writes = self._writes(model, trainable, served)
        exchanges = self.exchanges = self._exchanges(choices, captures, memory, versions, writes)
        held.updater = next((layer.updater for layer in layers if layer.updater is not None), None)
        held.exchanges = exchanges
        replica = PlanReplica(
            model=model,
            layers=layers,
            choices=choices,
            exchanges=exchanges,
            captures=captures,
            memory=memory,
            versions=versions,
            recording=base.recording,
            hyper=hyper,
            policy=policy_of(launch.consistency, self.team.size),
            clip_norm=job.training.clip_norm,
            watch=self._watch(model, writes, place),
            # A replayed device runs beside its host, which has time for an update between two layers only.
            together=launch.profile is None,
            contributions=remembered,
        )
        versions.begin_at(self.saved.version)
        self.saved.give(held)
        return replica

    def _away(self) -> Away | None:
        """Where the state of this worker's optimizer is, if not beside the parameters."""
        return away(self.job.optimizer, str(self._launch.directory), self.device)

    def join_again(self, checksum: int) -> int | None:
        """Connect as a worker that was lost; answers the step that it goes on with, None where training is over.
        `checksum`: see `Rejoin.check`."""
        assert self._rejoin is not None
        assert self.versions is not None
        units = [choice.unit for choice in load_choices(self._launch).values()]
        self._rejoin.check(checksum)
        return self._rejoin.join(self.exchanges, units, self.versions)

    def catch_up(self) -> int:
        """The first step. Where workers drift, and go on from a checkpoint, this one waits for what servers have."""
        step = self.saved.step
        if step != self.saved.version:
            assert self.versions is not None
            for exchange in dict.fromkeys(self.exchanges.values()):
                if isinstance(exchange, ServerExchange):
                    exchange.join(step)
            units = [choice.unit for choice in load_choices(self._launch).values()]
            self.versions.wait(units, step, lambda unit: self.exchanges[unit.index].missing(unit))
        return step

    def begins(self) -> Callable[[int], None]:
        """Told of each step, where workers are in different ones: that this one goes on, and with which random states
        it begins, where servers record what their updates consist of."""
        launch, base, going = self._launch, self._base, self._going
        if not (drifts(launch.consistency) or trains_alone(launch.consistency)):
            return lambda step: None
        if not drifts(launch.consistency) or unwaited(launch.consistency) or not launch.job.telemetry.updates:
            return going.begins
        record = RandomRecord(launch.random_states(self.rank, base.incarnation), self.device)
        base.at_the_end.callback(record.close)

        def begins(step: int) -> None:
            going.begins(step)
            record.add(step)

        return begins

    def _agreed(self, model: nn.Module) -> frozenset[str]:
        """Parameters that this worker holds alike with others in the same step: all, or those that are not trained
        where workers drift or train alone. None where one may be lost, of whose reports nobody knows when they come."""
        consistency = self._launch.consistency
        if self.team.size == 1:
            return frozenset()
        apart = drifts(consistency) or trains_alone(consistency)
        if apart and self._launch.job.cluster.worker_loss != "end":
            return frozenset()
        return frozenset(n for n, p in model.named_parameters() if not (apart and p.requires_grad))

    def _writes(
        self, model: nn.Module, trainable: Mapping[str, Parameter], served: Collection[str]
    ) -> Writes | None:
        """What looks at the parameters, where another worker or a server has to know what a model writes to them."""
        agreed, alone = self._agreed(model), trains_alone(self._launch.consistency)
        if self._launch.profile is not None or not (agreed or (served and not alone)):
            return None
        own: Collection[str] = () if alone else trainable  # what such a worker writes to its own is averaged
        parameters = {name: p for name, p in model.named_parameters() if name in agreed or name in own}
        return Writes(parameters, served=() if alone else served, compared=bool(agreed))

    def _watch(self, model: nn.Module, writes: Writes | None, place: Place) -> Watch | None:
        if writes is None:
            return None
        agreed, agreement = self._agreed(model), None
        if agreed:
            agreement = Agreement(
                {name: parameter for name, parameter in writes.parameters.items() if name in agreed},
                sender=self.team.sender,
                gather=place.team,
                rank=self.team.rank,
                workers=self.team.size,
                device=self.device,
            )
            self._worker_lane.add(agreement.kinds, agreement)
        return Watch(writes, agreement, agreed=agreed, meets=not drifts(self._launch.consistency))

    def _exchanges(
        self,
        choices: Mapping[int, Choice],
        captures: Mapping[int, Capture],
        memory: HostMemory,
        versions: Versions,
        writes: Writes | None,
    ) -> dict[int, Exchange]:
        """One instance per exchange of the plan; by unit index."""
        launch, base = self._launch, self._base
        by_unit: dict[int, Exchange] = {}
        policy = policy_of(launch.consistency, self.team.size)
        for name in dict.fromkeys(c.layer.exchange for c in choices.values()):
            mine = {index: c for index, c in choices.items() if c.layer.exchange == name}
            context = Surroundings(
                rank=self.team.rank,
                workers=self.team.size,
                choices=mine,
                captures=captures,
                memory=memory,
                endpoint=self.team.sender,
                versions=versions,
                recording=base.recording,
                collectives=base.collectives,
                layer_of=self._layer_of,
                shard_party=partial(home_of, launch),
                party_name=self._party_name,
                device=str(self.device),
                rendezvous=launch.rendezvous + "-native",
                deadline_s=launch.deadline_s,
                lockstep=policy.lockstep or (self.team.size == 1 and policy.in_place),
                lost=lambda rank, steps, reason: record_loss(base, self.rank, rank, 0, steps, reason),
                written=(lambda unit: False) if writes is None else writes.in_unit,
            )
            exchange: Exchange = EXCHANGE[name].load()(context)
            self._worker_lane.add(exchange.kinds, exchange, mine)
            by_unit.update(dict.fromkeys(mine, exchange))
        return by_unit

    def _party_name(self, number: int) -> str:
        """Of a party as exchanges know it: in a pipeline, by its rank among those that hold the stage."""
        return self._base.names[number if self.team.stage is None else self.team.members[number]]

    def _wrapped(self, place: Place, model: nn.Module, schedule: HyperSchedule, wrapper: Wrapper) -> Replica:
        launch, base = self._launch, self._base
        join_process_group(
            base.collectives,
            device=str(self.device),
            rendezvous=launch.rendezvous + "-native",
            rank=self.rank,
            workers=launch.job.cluster.workers,
            deadline_s=launch.deadline_s,
        )
        kind = wrapped_class(wrapper.runner)
        writes = self._writes(model, {}, ()) if kind.whole else None
        replica = kind(
            model=model,
            layer_index=self._layer_of,
            wrapper=wrapper,
            optimizer=self.job.optimizer,
            away=self._away(),
            recording=base.recording,
            collectives=base.collectives,
            hyper=schedule.at,
            clip_norm=self.job.training.clip_norm,
            device=str(self.device),
            all_used=launch.profile is not None,
            watch=self._watch(model, writes, place),
        )
        self.held.updater = replica.updater
        self.saved.give(self.held)
        return replica
