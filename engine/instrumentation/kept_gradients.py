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
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.sharing import is_lonely, memory_of, others_hold


class _Kept(NamedTuple):
    """A gradient that somebody else holds."""

    gradient: Tensor
    version: int
    """How often it had been written to when it left."""
    by_memory: bool
    """It is held as memory only, which may be by gradients of other parameters: what the backward pass of torch.cat
    gives them are views of one tensor."""


class KeptGradients:
    """Of one worker's parameters, by name."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def leaves(self, name: str, parameter: Parameter) -> None:
        """The gradient is about to leave, and what is added to it from now on is others'."""
        gradient = parameter.grad
        if gradient is None:
            return
        named = _is_named(parameter)
        if named or not is_lonely(gradient):
            self._kept[name] = _Kept(gradient, gradient._version, by_memory=not named)
            self._seen(memory_of(gradient), gradient._version)  # a sibling's may have grown meanwhile
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)

    def names(self) -> list[str]:
        """Whose gradients of the step are kept, when all have left. Raises TrainingError for one that was written to
        too late."""
        self._forget_siblings()
        for name in self._kept:
            self._check(name)
        return list(self._kept)

    def summed(self, parameters: Mapping[str, Parameter]) -> None:
        """The sums of the parameters' gradients are in their places, or an update has taken them."""
        for name in self._kept.keys() & parameters.keys():
            self._check(name)
            sums = parameters[name].grad
            if sums is not None:
                self._write(name, sums)
                parameters[name].grad = self._kept[name].gradient
            del self._kept[name]

    def _forget_siblings(self) -> None:
        """What only gradients of these parameters hold is nobody else's."""
        together = Counter(memory_of(kept.gradient) for kept in self._kept.values())
        siblings = [
            name
            for name, kept in self._kept.items()
            if kept.by_memory and not others_hold(memory := memory_of(kept.gradient), together[memory])
        ]
        for name in siblings:
            del self._kept[name]

    def _check(self, name: str) -> None:
        kept = self._kept[name]
        if kept.gradient._version != kept.version:
            raise TrainingError(
                f"the gradient of {name} was written to after it had left to be summed, by who had kept the tensor."
                " Write to it in the hook that gets it"
            )

    def _write(self, name: str, sums: Tensor) -> None:
        gradient = self._kept[name].gradient
        for other in self._in(memory := memory_of(gradient)):
            self._check(other)
        with torch.no_grad():
            gradient.copy_(sums)
        self._seen(memory, gradient._version)

    def _in(self, memory: int) -> list[str]:
        return [name for name, kept in self._kept.items() if memory_of(kept.gradient) == memory]

    def _seen(self, memory: int, version: int) -> None:
        """What has been written there so far was no user: views of one tensor count their writes together."""
        for name in self._in(memory):
            self._kept[name] = self._kept[name]._replace(version=version)


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


def _is_named(parameter: Parameter) -> bool:
    """Whether anybody else holds the gradient itself. The caller, too, holds it once."""
    return _names(parameter) > _OWN + 1 or _uses(parameter) > _OWN_USES
