"""Kept gradients: a hook of the model's own may keep the tensor in `.grad`, or a view of it, and use it later.

In the same backward pass it is to see what this worker computed, while others add to the sum: the sum then runs in a
copy, and what was kept gets it when it is there, as in plain PyTorch it would hold the whole gradient then. What is
written to it after the gradient has left is lost to the sum, and ends the job. `.data` and NumPy write without being
counted, and are not found.

Cost: counting who holds each gradient, 1 µs, and a copy of those that somebody else holds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

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

    def check(self) -> None:
        """The backward pass has ended. Raises TrainingError for a gradient that was written to in it too late."""
        for name, (gradient, version) in self._kept.items():
            if gradient._version != version:
                raise TrainingError(
                    f"the gradient of {name} was written to in backward after it had left to be summed, by who had kept"
                    " the tensor. Write to it in the hook that gets it"
                )

    def summed(self, parameters: Mapping[str, Parameter]) -> None:
        """The sums of the parameters' gradients are in their places, or an update has taken them."""
        for name in self._kept.keys() & parameters.keys():
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


def _lonely_names() -> int:
    parameter = Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    return _names(parameter)


_OWN = _lonely_names()


def _is_kept(parameter: Parameter) -> bool:
    """Whether anybody else holds the gradient, or its memory. The caller, too, holds it once."""
    assert parameter.grad is not None
    return _names(parameter) > _OWN + 1 or not is_lonely(parameter.grad)
