"""Presence: which parameters have a gradient in a step, on this worker and on any.

A parameter that no worker used has no gradient, and its optimizer leaves it alone: no decay, no momentum. One that some
used has the sum of theirs. It may be part of several units, which travel by themselves: what the first one to leave
finds counts for all, since an exchange makes zeros of an absent gradient to add to, and only when the last one has come
back is the gradient forgotten.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.kept_gradients import KeptGradients
from engine.plan.units import Segment


class Presence:
    """Of one worker's parameters, by name."""

    def __init__(self) -> None:
        self.kept = KeptGradients()
        self._here: dict[str, tuple[int, bool]] = {}
        """The step that was last asked for, and whether the parameter had a gradient here. The training thread's."""
        self._absent: dict[str, int] = {}
        """Of parameters that have no gradient anywhere: elements of those units that are back."""
        self._lock = threading.Lock()

    def here(self, name: str, parameter: Parameter, step: int) -> bool:
        """Whether the parameter had a gradient on this worker when its first unit left in `step`. Raises TrainingError
        for one that is not dense."""
        known = self._here.get(name)
        if known is None or known[0] != step:
            if parameter.grad is not None:
                check_dense(name, parameter.grad)
                self.kept.leaves(name, parameter)
                if not parameter.grad.is_contiguous():  # before anything is added to a view of it
                    parameter.grad = parameter.grad.contiguous()
            known = self._here[name] = step, parameter.grad is not None
        return known[1]

    def was_here(self, name: str) -> bool:
        """The last answer of `here`."""
        return self._here[name][1]

    def nowhere(self, segment: Segment, parameter: Parameter) -> bool:
        """No worker has a gradient of this segment. Answers whether this is known of the whole parameter now."""
        with self._lock:
            count = self._absent.get(segment.parameter, 0) + segment.count
            complete = count == parameter.numel()
            self._absent[segment.parameter] = 0 if complete else count
        return complete


def check_dense(name: str, gradient: Tensor) -> None:
    """Raises TrainingError for a gradient without an element for each of the parameter's."""
    if gradient.layout != torch.strided:
        raise TrainingError(
            f"the gradient of {name} is {gradient.layout}; only dense gradients are exchanged."
            " Build the layer with sparse=False"
        )
