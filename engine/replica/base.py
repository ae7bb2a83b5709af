"""What the training loop asks of a replica, however its gradients meet the others'."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from engine.errors import TrainingError
from engine.inputs.loader import StepBatch
from engine.inputs.task import BatchLoss, Task


class Replica(Protocol):
    """One worker's model and how it is kept in step with the others'."""

    def passing(self, task: Task) -> Callable[[Tensor, Tensor], BatchLoss]:
        """(inputs, targets) -> the loss of a training pass of `task`. Called once; collective."""
        ...

    def begin_step(self, step: int, batch: StepBatch) -> None: ...
    def begin_forward(self) -> None: ...
    def end_forward(self) -> None: ...
    def begin_backward(self, last: bool) -> None: ...
    def end_backward(self) -> None: ...
    def settle(self) -> None:
        """Block until this worker holds, in all layers, what its next step begins with."""
        ...

    def ends(self, steps: int) -> None:
        """After all `steps` steps: `settle`, and let others know that this worker contributes nothing more."""
        ...

    def finish(self) -> None:
        """Behind that, where workers drift: block until all have contributed all. Collective."""
        ...

    def close(self) -> None: ...
    def accumulating(self) -> AbstractContextManager[None]: ...
    def common(self) -> AbstractContextManager[None]:
        """Around an evaluation or a saved state, after `settle`: the model holds what all workers agree on.
        Collective."""
        ...


def finite(loss: float, step: int) -> float:
    """`loss`, if training goes on. Raises TrainingError where it has diverged."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}: training has diverged."
            " Lower optimizer.learning_rate, set training.clip_norm, or check the data for NaN"
        )
    return loss
