"""Task: what is learned. A loss that can be summed over workers, and a count of correct predictions.

Gradients of one step are summed, never averaged: each micro-batch contributes
(sum of its samples' losses) / (weight of the whole global batch), so uneven shards need no special case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import UserError
from engine.inputs.batch import Tensors, count
from engine.user_code import place_of

IGNORED = -100
"""In place of a target that does not count: padding behind a shorter sentence. Also cross_entropy's default."""


class BatchLoss(NamedTuple):
    """What a batch came to."""

    total: Tensor
    """Sum (never the mean) of the samples' losses: a scalar with gradients."""
    correct: Tensor | None
    """How many targets were predicted correctly: an int64 scalar left on its device (reading it waits for the
    device), or None where that has no meaning."""


class Task(Protocol):
    """A user's own `loss` has this form: any callable will do."""

    def __call__(self, model: nn.Module, inputs: Tensors, targets: Tensors) -> BatchLoss: ...


def classification(model: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
    """Cross-entropy of `model(inputs)` (n, classes, ...) and `targets` (n, ...), and the top-1 count; targets that are
    IGNORED take part in neither. Raises UserError for what is no such pair, in whatever batch it comes."""
    logits = model(inputs)
    try:
        loss = functional.cross_entropy(logits, targets, reduction="sum", ignore_index=IGNORED)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        if _are_scores(logits, targets) and not isinstance(error, IndexError):
            raise
        raise UserError(
            "",
            f"forward answered {_named(logits)}",
            f"cross-entropy takes a score of each class for every target, and the targets are {_named(targets)}:"
            f" {error}",
            "Let forward answer (samples, classes, ...) for every batch, with as many classes as the targets name,"
            " or write a `loss` of your own beside the model",
        ) from error
    return BatchLoss(loss, (logits.argmax(1) == targets).sum())


def _are_scores(logits: Any, targets: Tensor) -> bool:
    """Whether their shapes are those of scores and targets."""
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        return False
    return logits.shape[:1] + logits.shape[2:] == targets.shape


def weight(targets: Tensors) -> int:
    """A batch's weight: the number of its targets that count (samples, or tokens where each token has one). Where a
    target is several tensors, nobody knows which of them count: then it is the number of samples."""
    if not isinstance(targets, Tensor):
        return count(targets)
    return targets.numel() if targets.is_floating_point() else int((targets != IGNORED).sum())


@contextmanager
def enough_samples() -> Iterator[None]:
    """Around a training pass: batch normalization over a single value raises UserError, which says what to do."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected more than 1 value per channel when training"):
            raise
        raise UserError(
            "training.global_batch",
            str(error).rpartition("got ")[2],
            "batch normalization has a single value to take the mean of: a worker's pass has one sample",
            "Use a larger global_batch, fewer workers or fewer micro_batches, or another normalization",
        ) from error


class UserLoss:
    """A user's `loss(model, inputs, targets) -> (sum of losses, correct or None)`, checked at each call."""

    def __init__(self, function: Callable[..., Any], entrypoint: str) -> None:
        """Raises UserError for a function that cannot be called so."""
        self._function = function
        self._where = f"loss beside {entrypoint}"
        self._place = place_of(function)
        try:
            form = inspect.signature(function, follow_wrapped=False)  # a wrapper may give more arguments
        except (TypeError, ValueError):  # of some functions in C nobody knows
            return
        try:
            form.bind(None, None, None)
        except TypeError:
            raise UserError(
                "",
                f"{self._where}: loss{form}",
                "is called as loss(model, inputs, targets)",
                "Let it take these three, call the model itself, and return the sum of the samples' losses and the"
                " number of correct predictions, or None",
            ) from None

    def __call__(self, model: nn.Module, inputs: Tensors, targets: Tensors) -> BatchLoss:
        """See Task. Raises UserError where the function returns something else."""
        found = self._function(model, inputs, targets)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise self._refuse(
                f"returned a {type(found).__name__}, not the pair (sum of losses, correct or None)"
            )
        total, correct = found
        if not (isinstance(total, Tensor) and total.ndim == 0 and total.is_floating_point()):
            raise self._refuse(f"the sum of losses is {_named(total)}, not a real scalar tensor")
        if not (
            correct is None or isinstance(correct, int) or (isinstance(correct, Tensor) and correct.ndim == 0)
        ):
            raise self._refuse(
                f"the count of correct predictions is {_named(correct)}, not one number or None"
            )
        return BatchLoss(total, torch.as_tensor(correct) if isinstance(correct, int) else correct)

    def _refuse(self, rule: str) -> UserError:
        at = f" ({self._place})" if self._place else ""
        return UserError("", self._where, f"{rule}{at}", "Sum over samples; never take the mean")


def _named(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"
