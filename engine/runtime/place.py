"""Where a worker's part of the model is: all of it here, its front (`crossing.py`), or one stage (`pipeline.py`)."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from engine.coordination.gather import Gather
from engine.replica.base import Replica
from engine.runtime.subject import Subject
from engine.runtime.trainer import LocalLoss, MeasuredLoss, OneByOne, Passes, PassLoss
from engine.state.computation import Computation
from engine.state.recording import Recording


class Place(Protocol):
    """What a worker asks of it, in this order. It registers its messages when it is made, before peers connect."""

    shared: nn.Module
    """What has to start with worker 0's values in this process; on the host."""
    model: nn.Module
    """What is trained here; moved to its device when it has its first values."""
    team: Gather
    """The workers that hold the same buffers."""

    def open(self, replica: Replica, total_steps: int) -> tuple[Passes, PassLoss]:
        """When all are connected and `shared` is set: how micro-batches pass in training, and how a batch's loss is
        measured in an evaluation."""
        ...

    def end(self) -> dict[str, Tensor] | None:
        """After training; collective. On worker 0: the whole state, where `model` is only a part of it."""
        ...


class Whole:
    """The whole model is here."""

    def __init__(
        self, subject: Subject, recording: Recording, gather: Gather, computation: Computation
    ) -> None:
        self.shared = self.model = subject.model
        self.team = gather
        self._task = subject.task
        self._recording = recording
        self._computation = computation

    def open(self, replica: Replica, total_steps: int) -> tuple[Passes, PassLoss]:
        """See Place."""
        loss = LocalLoss(replica.passing(self._task), self._computation)
        measure = MeasuredLoss(self.model, self._task, self._computation)
        return OneByOne(replica, loss, self._computation, self._recording), measure

    def end(self) -> None:
        """See Place: nothing is elsewhere."""
