"""Computation: what surrounds the model wherever it is computed: as a whole, in front of a cut, behind it, in a stage.

The forward part of a training pass, its backward part and a pass of an evaluation each have one composed context, and
the places that compute have none of their own: gradients or none, the precision, what is said where a batch is too
small or cannot be differentiated, and what keeps, moves or drops what forward saves for backward (`Memory`). Whatever
is added here works under every way of training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import torch

from engine.errors import TrainingError
from engine.inputs.batch import Tensors
from engine.inputs.task import enough_samples

Autocast = Callable[[], AbstractContextManager[None]]
"""The precision in which a model computes."""


class Memory(Protocol):
    """What happens to activations between forward and backward."""

    def training(self, inputs: Tensors) -> AbstractContextManager[None]:
        """Around the forward part of a training pass. `inputs`: what is held until its backward part has ended."""
        ...

    def backward(self) -> AbstractContextManager[None]:
        """Around the backward part of a training pass."""
        ...

    def close(self) -> None:
        """Nothing is computed any more."""
        ...


class Kept:
    """Activations stay where they are."""

    def training(self, inputs: Tensors) -> AbstractContextManager[None]:
        return nullcontext()

    def backward(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None: ...


class Computation:
    """The surroundings of one party's part of a model."""

    def __init__(self, autocast: Autocast = nullcontext, memory: Memory | None = None) -> None:
        self._autocast = autocast
        self._memory = memory or Kept()

    @contextmanager
    def training(self, inputs: Tensors) -> Iterator[None]:
        """Around the forward part of a training pass on `inputs`."""
        with torch.enable_grad(), self._autocast(), enough_samples(), self._memory.training(inputs):
            yield

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Around the backward part of a training pass. Raises TrainingError for what compiled code cannot do."""
        try:
            with self._memory.backward():
                yield
        except RuntimeError as error:
            if "support double backward" not in str(error):
                raise
            raise TrainingError(
                "the loss differentiates its own derivatives, of which compiled code has none. Leave the part that is"
                " differentiated twice uncompiled, or compile it with backend='eager'"
            ) from error

    @contextmanager
    def measuring(self, *, gradients: bool = False) -> Iterator[None]:
        """Around a pass of an evaluation. `gradients`: the loss asks for some."""
        with torch.set_grad_enabled(gradients), self._autocast(), enough_samples():
            yield

    def close(self) -> None:
        """Nothing is computed any more."""
        self._memory.close()
