"""A stage in its worker: its layers and its neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.coordination.buffers import averaged_buffers
from engine.coordination.dispatch import Dispatch
from engine.coordination.gather import Gather
from engine.coordination.team import Team
from engine.launch import Launch
from engine.models.cut import cut_in_a_row
from engine.placement.neighbours import Neighbours, patience
from engine.placement.stage import StagePasses
from engine.plan.plan import Plan
from engine.protocol.messages import Message
from engine.replica.base import Replica
from engine.runtime.computing import computing
from engine.runtime.crossing import edge_choice
from engine.runtime.party import PartyBase
from engine.runtime.subject import Subject, cuts_of, cutting
from engine.runtime.trainer import Passes, PassLoss
from engine.runtime.whole_state import Layout, WholeState, give, layout_of


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
    ) -> None:
        """Before the endpoint connects. `lane`: the worker's."""
        assert isinstance(launch.plan, Plan)
        assert launch.plan.pipeline is not None
        assert team.stage is not None
        self._launch = launch
        self._base = base
        self._seat = team
        self._task = subject.task
        self._device = torch_device
        self._pipeline = launch.plan.pipeline
        stage, stages = team.stage, self._pipeline.stages
        self.shared = self.model = subject.model
        self._whole: WholeState | None = None
        self._away: Layout = {}
        """What worker 0 does not hold: the other stages' state."""
        if launch.profile is None:
            with cutting(launch):
                parts = cut_in_a_row(subject.model, cuts_of(launch.plan))
            self.model = parts[stage]
            self._away = layout_of(parts[1:])
            self._whole = WholeState(base, lane, gather, subject.model, layout_of(parts), self._away)
        self._computation = computing(launch, base, self.model, torch_device)
        self._neighbours = Neighbours(
            before=edge_choice(launch, stage - 1) if stage > 0 else None,
            behind=edge_choice(launch, stage) if stage < stages - 1 else None,
            patience_s=patience(stage, stages),
            names=base.names,
            endpoint=base.endpoint,
            recording=base.recording,
            deadline_s=launch.deadline_s,
        )
        lane.add(Neighbours.kinds, self._neighbours)
        base.endpoint.on_failure(self._neighbours.fail)
        self.team = Gather(team.sender, team.rank, team.size, launch.deadline_s, Message.TEAM_GATHER)
        lane.add(self.team.kinds, self.team)
        base.endpoint.on_failure(self.team.fail)

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
            computation=self._computation,
            neighbours=self._neighbours,
            recording=self._base.recording,
        )
        return passes, passes.evaluate

    def end(self) -> dict[str, Tensor] | None:
        """See Place."""
        if self._whole is None:
            return None
        own = {**self.model.state_dict(), **averaged_buffers(self.model, self.team)}
        self._whole.prepare()
        if self._base.party.index == 0:
            return self._whole.complete(own)
        if self._seat.rank == 0:
            give(self._base, self._away, own)
        return None
