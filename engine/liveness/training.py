"""What is trained, for who runs steps or passes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.utils._pytree import tree_leaves

from engine.inputs.batch import Tensors, count, repeated
from engine.inputs.task import BatchLoss, Task
from engine.plan.description import ModelDescription


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model, its loss, and one batch: with values, or all of it on `meta`."""

    model: nn.Module
    described: ModelDescription
    inputs: Tensors
    targets: Tensors
    task: Task

    @property
    def samples(self) -> int:
        """Of the batch."""
        return count(self.inputs)

    @property
    def batch(self) -> list[Any]:
        """What it consists of."""
        found: list[Any] = tree_leaves([self.inputs, self.targets])
        return found

    def loss(self) -> BatchLoss:
        """Of a forward pass."""
        return self.task(self.model, self.inputs, self.targets)

    def times(self, number: int) -> Training:
        """On so many times the batch."""
        inputs, targets = repeated(self.inputs, number), repeated(self.targets, number)
        return replace(self, inputs=inputs, targets=targets)
