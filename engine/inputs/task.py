"""Task: what is learned. A loss that can be summed over workers, and a count of correct predictions.

Gradients of one step are summed, never averaged: each micro-batch contributes
(sum of its samples' losses) / (weight of the whole global batch), so uneven shards need no special case.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn
from torch.nn import functional


class BatchLoss(NamedTuple):
    """What a batch came to."""

    total: Tensor
    """Sum (never the mean) of the samples' losses: a scalar with gradients."""
    correct: Tensor | None
    """How many targets were predicted correctly: an int64 scalar left on its device (reading it waits for the
    device), or None where that has no meaning."""


class Task(Protocol):
    """A user's own `loss` has this form: any callable will do."""

    def __call__(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss: ...


def classification(model: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
    """Cross-entropy of `model(inputs)` (n, classes, ...) and `targets` (n, ...), and the top-1 count."""
    logits = model(inputs)
    return BatchLoss(
        functional.cross_entropy(logits, targets, reduction="sum"), (logits.argmax(1) == targets).sum()
    )


def weight(targets: Tensor) -> int:
    """A batch's weight: the number of its targets (samples, or tokens where each token has one)."""
    return targets.numel()
