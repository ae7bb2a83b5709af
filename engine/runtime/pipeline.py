"""A stage in its worker: its layers, its neighbours, and the whole model's state together again at the end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.cut import cut_in_a_row, first_names
from engine.placement.neighbours import Neighbours
from engine.placement.stage import StagePasses
from engine.plan.plan import Plan
from engine.runtime.crossing import edge_choice
from engine.runtime.dispatch import Dispatch
from engine.runtime.evaluation import averaged_buffers
from engine.runtime.gather import Gather
from engine.runtime.initial import InitialState, empty_state, host_state
from engine.runtime.launch import Launch
from engine.runtime.messages import Lane, Message
from engine.runtime.party import PATIENCE_S, PartyBase
from engine.runtime.subject import Autocast, Subject, cuts_of
from engine.runtime.team import Team
from engine.runtime.trainer import Passes, PassLoss, Replica

Layout = dict[str, tuple[tuple[int, ...], str]]
"""Shapes and types by name."""


class Stage:
    """One worker's stage of a pipeline. See Place for what a worker asks of it."""

    def __init__(
        self,
        launch: Launch,
        base: PartyBase,
        subject: Subject,
        team: Team,
        lane: Dispatch,
        gather: Gather,
        torch_device: torch.device,
        autocast: Autocast,
    ) -> None:
        """Before the endpoint connects. `lane`: the worker's."""
        assert isinstance(launch.plan, Plan)
        assert launch.plan.pipeline is not None
        assert team.stage is not None
        self._launch = launch
        self._base = base
        self._seat = team
        self._everyone = gather
        self._lane = lane
        self._task = subject.task
        self._autocast = autocast
        self._device = torch_device
        self._pipeline = launch.plan.pipeline
        stage, stages = team.stage, self._pipeline.stages
        self.shared = self.model = subject.model
        self._away: Layout = {}
        """What worker 0 does not hold: the other stages' state."""
        self._unused: dict[str, Tensor] = {}
        """What no stage holds."""
        self._first_names: dict[str, str] = {}
        if launch.profile is None:
            self.model = self._cut(subject.model, stage).to(torch_device)
        self._neighbours = Neighbours(
            before=edge_choice(launch, stage - 1) if stage > 0 else None,
            behind=edge_choice(launch, stage) if stage < stages - 1 else None,
            names=base.names,
            endpoint=base.endpoint,
            recording=base.recording,
            deadline_s=launch.deadline_s + PATIENCE_S,
        )
        lane.add(Neighbours.kinds, self._neighbours)
        base.endpoint.on_failure(self._neighbours.fail)
        self.team = Gather(team.sender, team.rank, team.size, launch.deadline_s, Message.TEAM_GATHER)
        lane.add(self.team.kinds, self.team)
        base.endpoint.on_failure(self.team.fail)

    def _cut(self, model: nn.Module, stage: int) -> nn.Module:
        """The stage that is here; and, for the end, what the others will hold."""
        parts = cut_in_a_row(model, cuts_of(self._launch.plan))
        for part in parts[1:]:
            for name, held in part.state_dict().items():
                self._away[name] = tuple(held.shape), str(held.dtype).removeprefix("torch.")
        self._first_names = first_names(model)
        here = self._away.keys() | parts[0].state_dict().keys()
        for name, held in model.state_dict().items():
            if self._first_names[name] not in here:
                self._unused[name] = held.clone()
        return parts[stage]

    def open(self, replica: Replica, total_steps: int) -> tuple[Passes, PassLoss]:
        """See Place. The other stages are forgotten here."""
        del self.shared
        assert self._seat.stage is not None
        passes = StagePasses(
            stage=self._seat.stage,
            stages=self._pipeline.stages,
            schedule=self._pipeline.schedule,
            part=self.model,
            replica=replica,
            task=self._task,
            device=self._device,
            autocast=self._autocast,
            neighbours=self._neighbours,
            recording=self._base.recording,
        )
        return passes, passes.evaluate

    def end(self) -> dict[str, Tensor] | None:
        """See Place."""
        if self._launch.profile is not None:
            return None
        own = {**self.model.state_dict(), **averaged_buffers(self.model, self.team)}
        trained = InitialState(empty_state(self._away), self._launch.deadline_s, Message.STATE)
        if self._base.party.index == 0:
            self._lane.add(trained.kinds, trained)
            self._base.endpoint.on_failure(trained.fail)
        self._everyone.run([torch.zeros(1)])  # worker 0 is ready to receive
        if self._base.party.index == 0:
            trained.wait("the workers of the other stages")
            found = {**own, **trained.tensors, **self._unused}
            names = self._first_names.items()
            return {name: found[first if first in found else name] for name, first in names}
        if self._seat.rank == 0:
            mine = host_state(own, {})
            given = InitialState(
                {name: mine.get(name, empty) for name, empty in trained.tensors.items()},
                self._launch.deadline_s,
                Message.STATE,
            )
            given.send(self._base.endpoint, [(0, Lane.WORKER)], only=mine.keys())
        return None
