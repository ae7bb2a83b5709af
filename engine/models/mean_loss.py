"""Whether a user's own loss answers with the mean over its batch, where the sum is asked for (`engine/inputs/task.py`).

Only values tell: a batch of two samples against each of the two alone. Batch statistics and dropout make samples of a
batch depend on one another, so the model is in evaluation mode. Nothing is said where that proves nothing: a loss that
draws at random, that is no number, or that is neither sum nor mean, as one that compares the samples of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from engine.inputs.batch import Tensors
from engine.inputs.task import Task, weight
from engine.instrumentation.compiled import uncompiled
from engine.plan.description import ModelDescription

_MOST_BYTES = 64 * 2**20
_MOST_FLOPS = 10**9
_NEAR = 1e-4
"""Of float32, and of sums in another order; sum and mean of two are twice as large."""


def is_cheap(model: ModelDescription) -> bool:
    """Whether four passes of it with values take no time or memory that anybody would notice: of at most 64 MiB of
    parameters, and a billion operations per sample."""
    return model.parameter_bytes <= _MOST_BYTES and model.forward_flops <= _MOST_FLOPS


def is_mean(model: nn.Module, task: Task, batches: Sequence[tuple[Tensors, Tensors]]) -> bool:
    """Whether the loss is certainly the mean. `batches`: (inputs, targets) of two samples, of the first one, and of the
    second one. Leaves the model in evaluation mode. Raises what the user's code raises."""
    model.eval()
    with torch.no_grad(), uncompiled():
        both, again, first, second = (
            float(task(model, *batch).total) for batch in (batches[0], batches[0], *batches[1:])
        )
    if not all(map(math.isfinite, (both, first, second))) or not _near(both, again):
        return False
    weights = [weight(targets) for _, targets in batches[1:]]
    means = [
        (first * one + second * other) / (one + other) for one, other in ((1, 1), weights) if one + other
    ]
    return not _near(both, first + second) and any(_near(both, mean) for mean in means)


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_NEAR)
