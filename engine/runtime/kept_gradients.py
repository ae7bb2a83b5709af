"""Kept gradients: a hook of the model's own may keep the tensor in `.grad`, or a view of it, and use it later.

In the same backward pass it is to see what this worker computed, while others add to the sum: the sum then runs in a
copy. In the next forward pass it holds the sum, as in plain PyTorch the whole gradient; the layer is waited for before
that begins. Where a server updates no worker ever has the sum: what was kept stays the worker's own part, which is said
once. What is written to it after the gradient has left is lost to the sum, and ends the job. `.data` and NumPy write
without being counted, and are not found.

Cost: counting who holds each gradient, 1 µs, and a copy of those that somebody else holds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.runtime.sharing import is_lonely


class KeptGradients:
    """Of one worker's parameters, by name."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Tensor, int]] = {}
        """What somebody else holds, and how often it had been written to when it left."""

    def leaves(self, name: str, parameter: Parameter) -> None:
        """The gradient is about to leave, and what is added to it from now on is others'."""
        gradient = parameter.grad
        if gradient is not None and _is_kept(parameter):
            self._kept[name] = gradient, gradient._version
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)

    def names(self) -> list[str]:
        """Whose gradients of the step are kept. Raises TrainingError for one that was written to too late."""
        for name in self._kept:
            self._check(name)
        return list(self._kept)

    def _check(self, name: str) -> None:
        gradient, version = self._kept[name]
        if gradient._version != version:
            raise TrainingError(
                f"the gradient of {name} was written to after it had left to be summed, by who had kept the tensor."
                " Write to it in the hook that gets it"
            )

    def summed(self, parameters: Mapping[str, Parameter]) -> None:
        """The sums of the parameters' gradients are in their places, or an update has taken them."""
        for name in self._kept.keys() & parameters.keys():
            self._check(name)
            kept, _ = self._kept.pop(name)
            sums = parameters[name].grad
            if sums is not None:
                with torch.no_grad():
                    kept.copy_(sums)
                parameters[name].grad = kept


def _names(parameter: Parameter) -> int:
    """How many names Python has for the gradient, and some more, always the same."""
    gradient = parameter.grad
    return sys.getrefcount(gradient)


def _uses(parameter: Any) -> int:
    """How many holders it has outside of Python, and one for all of Python."""
    uses: int = parameter.grad._use_count()
    return uses


_LONELY = Parameter(torch.zeros(1))
_LONELY.grad = torch.zeros(1)
_OWN, _OWN_USES = _names(_LONELY), _uses(_LONELY)


def _is_kept(parameter: Parameter) -> bool:
    """Whether anybody else holds the gradient, or its memory. The caller, too, holds it once."""
    assert parameter.grad is not None
    named, used = _names(parameter) > _OWN + 1, _uses(parameter) > _OWN_USES
    return named or used or not is_lonely(parameter.grad)
