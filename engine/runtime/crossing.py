"""A cut model in its processes: the workers' end of the edge, and the home of the back, beside a worker or alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.axes.order import RANK
from engine.coordination.dispatch import Dispatch
from engine.coordination.gather import Gather
from engine.inputs.task import Task
from engine.launch import PATIENCE_S, Launch
from engine.memory.offload import away
from engine.placement.device import Back, DeviceLayer
from engine.placement.edge import EdgePasses
from engine.plan.cluster import device_party
from engine.plan.edges import edge_units
from engine.plan.flow import CROSSING
from engine.plan.plan import LayerPlan, Plan
from engine.protocol.messages import Lane
from engine.replica.base import Replica
from engine.runtime.computing import computing
from engine.runtime.initial import InitialState, first_values
from engine.runtime.party import PartyBase
from engine.runtime.servers import end_training
from engine.runtime.subject import Subject
from engine.runtime.trainer import Passes, PassLoss
from engine.runtime.whole_state import WholeState, give, layout_of
from engine.state.choice import Choice
from engine.state.host_memory import contiguous_parameters
from engine.state.updates import HyperSchedule, Updater


class Crossing:
    """One worker's end: its passes end on the device. See Place for what a worker asks of it."""

    def __init__(
        self,
        launch: Launch,
        base: PartyBase,
        subject: Subject,
        lane: Dispatch,
        gather: Gather,
        torch_device: torch.device,
    ) -> None:
        """Before the endpoint connects. `lane`: the worker's. `subject` has the parts of its model."""
        assert subject.parts is not None
        assert isinstance(launch.plan, Plan)
        self._launch = launch
        self._base = base
        front, back = subject.parts.front, subject.parts.back
        self.shared = self.model = front
        self.team = gather
        self._computation = computing(launch, base, front, torch_device)
        self._lane = lane
        self._party = device_party(launch.plan, launch.job.cluster.workers, 0)
        self._home: DeviceHome | None = None
        self._device: Back | None = None
        self._initial: InitialState | None = None
        """On worker 0, where the device is elsewhere: the back's first values, until they have been sent."""
        self._whole: WholeState | None = None
        if base.party.device is not None:
            self._home = DeviceHome(launch, base, back, subject.task, torch_device)
        if launch.profile is None:
            if base.party.index == 0 and self._home is None:
                self._initial = InitialState(first_values(back), launch.deadline_s)
            away = layout_of([back]) if self._party != 0 else {}
            self._whole = WholeState(base, lane, gather, subject.model, layout_of([front, back]), away)

    def open(self, replica: Replica, total_steps: int) -> tuple[Passes, PassLoss]:
        """See Place. Gives or takes the back's first values."""
        launch, base = self._launch, self._base
        if self._initial is not None:
            self._initial.send(base.endpoint, [(self._party, Lane.DEVICE)])
            self._initial = None
        if self._home is not None:
            self._device = self._home.open(lambda step: None)
        hyper = None
        if base.party.index == 0:
            hyper = HyperSchedule(launch.job.optimizer, launch.job.schedule, total_steps).at
        passes = EdgePasses(
            front=self.model,
            replica=replica,
            choice=edge_choice(launch),
            device_party=self._party,
            device_name=base.names[self._party],
            beside=self._device,
            micro_batches=launch.job.training.micro_batches,
            hyper=hyper,
            computation=self._computation,
            endpoint=base.endpoint,
            recording=base.recording,
            deadline_s=launch.deadline_s + PATIENCE_S,
        )
        self._lane.add(EdgePasses.kinds, passes)
        base.endpoint.on_failure(passes.fail)
        return passes, passes.evaluate

    def end(self) -> dict[str, Tensor] | None:
        """See Place."""
        base, device = self._base, self._device
        if device is not None:
            device.close()
        if self._whole is not None:
            self._whole.prepare()
        if base.party.index == 0 and self._party >= self._launch.job.cluster.workers:
            end_training(base.endpoint, [self._party], Lane.DEVICE)
        if self._whole is None:
            return None
        if base.party.index == 0:
            behind = {} if device is None else device.state()
            return self._whole.complete({**self.model.state_dict(), **behind})
        if self._home is not None and device is not None:
            self._home.give_state(device)
        return None


class DeviceHome:
    """The back of a cut model in the process that computes it."""

    def __init__(
        self,
        launch: Launch,
        base: PartyBase,
        back: nn.Module,
        task: Task,
        torch_device: torch.device,
    ) -> None:
        """Before the endpoint connects."""
        self._launch = launch
        self._base = base
        self._back = back
        self._task = task
        self._torch_device = torch_device
        contiguous_parameters(dict(back.named_parameters()))
        self._lane = base.dispatch(Lane.DEVICE)
        self._initial = InitialState(first_values(back), launch.deadline_s)
        self._lane.add(self._initial.kinds, self._initial)
        base.endpoint.on_failure(self._initial.fail)

    def open(self, begin_step: Callable[[int], None]) -> Back:
        """When all are connected: worker 0's values, then the device itself; `begin_step` is its own."""
        launch, base = self._launch, self._base
        if launch.profile is None and base.party.index != 0:  # what is replayed begins alike everywhere
            self._initial.wait(base.names[0])
            self._initial.write_into(self._back)
        self._initial.forget()
        self._back.to(self._torch_device)
        device = Back(
            back=self._back,
            task=self._task,
            layers=self._layers(),
            choice=edge_choice(launch),
            workers=launch.job.cluster.workers,
            torch_device=self._torch_device,
            computation=computing(launch, base, self._back, self._torch_device),
            begin_step=begin_step,
            endpoint=base.endpoint,
            recording=base.recording,
            deterministic=launch.job.training.deterministic,
            deadline_s=launch.deadline_s,
        )
        self._lane.add(Back.kinds, device)
        base.endpoint.on_failure(device.fail)
        return device

    def give_state(self, device: Back) -> None:
        """Hand what was trained to worker 0."""
        give(self._base, layout_of([self._back]), device.state())

    def _layers(self) -> list[DeviceLayer]:
        """The trained layers of the back, in forward order, each with its optimizer."""
        trainable = {name: p for name, p in self._back.named_parameters() if p.requires_grad}
        tier = away(self._launch.job.optimizer, str(self._launch.directory), self._torch_device)
        layers = []
        for described in self._launch.model.layers:
            mine = {p.name: trainable[p.name] for p in described.parameters if p.name in trainable}
            if mine:
                updater = Updater(self._launch.job.optimizer, mine, tier)
                layers.append(DeviceLayer(described.index, described.name, mine, updater))
        return layers


def edge_choice(launch: Launch, number: int = 0) -> Choice:
    """An edge of the plan with its mechanisms loaded. The same on every party."""
    assert isinstance(launch.plan, Plan)
    edge, unit = launch.plan.edges[number], edge_units(launch.plan, launch.model)[number]
    return Choice(
        unit=unit,
        layer=LayerPlan(
            layer=edge.destination, codec=edge.codec, codec_options=edge.codec_options, order=edge.order
        ),
        flow=CROSSING,
        rank=RANK[edge.order.rank].load(),
        layer_index=launch.model.layer(edge.destination).index,
        seed=launch.job.training.seed,
    )
