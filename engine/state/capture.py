"""Capture: what a worker has of a late-multiplied layer's gradient in one step.

Mostly its factors, X (rows, inputs) and E (rows, outputs): every loss is divided by the global batch's weight before it
is differentiated, so E is scaled already and products are summed, never averaged. In a step in which a part of the
gradient is no product (`engine/models/late_linear.py` says when), or was not left to the factors, the worker has the
gradient itself: what factors it has are multiplied, and it travels whole. That is decided by each worker in each step,
because only that is sure for whatever a model does; the others take either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from engine.instrumentation.undisturbed import undisturbed
from engine.instrumentation.watched_gradients import WatchedGradients, gradient_of, set_gradient
from engine.models.late_linear import ELSEWHERE, LOOKED_AT, Kept, LateLinear, Present
from engine.state.presence import check_dense


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What one worker has of a layer's gradient; tensors of its own, contiguous."""

    present: Present
    """Of which trained parameters. Of none where nobody used the layer."""
    factors: tuple[Tensor, Tensor] | None
    """X (rows, inputs) and E (rows, outputs), of one type; None where it is the gradients."""
    gradients: tuple[Tensor, ...] = ()
    """Of those that are present."""


class Capture(ABC):
    """One layer on this worker, from its uses to its gradient."""

    def __init__(self, layer: str, parameters: Mapping[str, Parameter], *, inputs: int, outputs: int) -> None:
        """`parameters`: those that are trained. `inputs`, `outputs`: columns of X and E."""
        self.inputs = inputs
        self.outputs = outputs
        self.parameters = list(parameters.values())
        self.dtype = self.parameters[0].dtype
        """In which factors are multiplied: the parameters' own."""
        self.why = ""
        """Why the last contribution was a gradient."""
        self._layer = layer
        self._names = list(parameters)
        self._said: set[str] = set()

    def when_final(self, parameter: Parameter, call: Callable[[Tensor], None]) -> RemovableHandle:
        """Call it when a backward pass has computed all that it has for `parameter`, factors or gradient."""
        return parameter.register_post_accumulate_grad_hook(call)

    @abstractmethod
    def begin_backward(self) -> None:
        """The step's own backward pass begins."""

    @abstractmethod
    def end_backward(self) -> None:
        """It has ended. Gradients that come now are not left to the factors."""

    def take(self, step: int) -> Captured:
        """The contribution to `step`; the next one begins anew. Why it is a gradient is said once for each reason."""
        kept = self._kept()
        wholes = {each.present for each in kept}
        if len(wholes) < 2 and all(parameter.grad is None for parameter in self.parameters):
            present = wholes.pop() if wholes else (False,) * len(self.parameters)
            return Captured(present=present, factors=self._stacked(kept))
        self._multiply_all(kept)
        found = []
        for name, parameter in zip(self._names, self.parameters, strict=True):
            if parameter.grad is not None:
                check_dense(name, parameter.grad)
                found.append(parameter.grad.detach().contiguous())
        contribution = Captured(
            present=tuple(parameter.grad is not None for parameter in self.parameters),
            factors=None,
            gradients=tuple(found),
        )
        for parameter in self.parameters:
            parameter.grad = None
        self._say(step, sum(gradient.nbytes for gradient in found))
        return contribution

    @abstractmethod
    def multiply(self, inputs: Tensor, errors: Tensor, present: Present) -> None:
        """Add to the gradients of those that are `present` what factors, on any device, in `dtype`, come to."""

    def add(self, gradients: Iterable[Tensor], present: Present) -> None:
        """Add to the gradients of those that are `present`; tensors of any shape, on any device, in `dtype`."""
        those = [p for p, there in zip(self.parameters, present, strict=True) if there]
        for parameter, gradient in zip(those, gradients, strict=True):
            added_to(parameter, gradient.to(parameter.device, non_blocking=True).view(parameter.shape))

    def elements(self, present: Present) -> list[int]:
        """Of the gradients of those that are `present`."""
        return [p.numel() for p, there in zip(self.parameters, present, strict=True) if there]

    @abstractmethod
    def _kept(self) -> Sequence[Kept]:
        """The factors of the step so far; they begin anew."""

    def _multiply_all(self, kept: Sequence[Kept]) -> None:
        for present in dict.fromkeys(each.present for each in kept):
            inputs, errors = self._stacked([each for each in kept if each.present == present])
            self.multiply(inputs.to(self.dtype), errors.to(self.dtype), present)

    def _stacked(self, kept: Sequence[Kept]) -> tuple[Tensor, Tensor]:
        if not kept:
            like = self.parameters[0]
            return like.new_empty(0, self.inputs), like.new_empty(0, self.outputs)
        if len(kept) == 1:
            return kept[0].inputs, kept[0].errors
        return torch.cat([each.inputs for each in kept]), torch.cat([each.errors for each in kept])

    def _say(self, step: int, size: int) -> None:
        self.why = self.why or ELSEWHERE
        if self.why not in self._said:
            self._said.add(self.why)
            print(
                f"warning: {self._layer} travels as a gradient of {size} bytes to every other worker, and not by the"
                f" factors that the plan declares, in step {step} and wherever that is so again: {self.why}."
                " Another exchange for this layer moves fewer bytes then",
                flush=True,
            )


class LinearCapture(Capture):
    """Of a torch.nn.Linear."""

    def __init__(self, layer: str, module: nn.Linear) -> None:
        own = {n: p for n, p in module.named_parameters(recurse=False) if p.requires_grad}
        super().__init__(layer, own, inputs=module.in_features, outputs=module.out_features)
        self._late = LateLinear(module, own)
        self._weighs = [parameter is module.weight for parameter in self.parameters]
        self._watched = WatchedGradients(self.parameters, self._look, self._late.lock)
        self._late.never = self._watched.why_not()
        self._final = 0
        """How many of the factors belong to what plain PyTorch has added to the gradient by now."""

    def when_final(self, parameter: Parameter, call: Callable[[Tensor], None]) -> RemovableHandle:
        def final(parameter: Tensor) -> None:
            self._final = len(self._late.kept)
            call(parameter)

        handle = super().when_final(parameter, final)
        self._late.own_hooks.add(handle.id)
        return handle

    def begin_backward(self) -> None:
        self._final = len(self._late.kept)
        if self._late.kept and self._late.hooked():
            self._look()  # the hook is to find the sum so far
        if not self._late.never:
            self._watched.begin()
        self._late.taking = True

    def end_backward(self) -> None:
        self._late.taking = False

    @torch.no_grad()
    def multiply(self, inputs: Tensor, errors: Tensor, present: Present) -> None:
        """E^T X, and E's column sums, in the parameters' own precision."""
        device = self.parameters[0].device
        inputs, errors = (factor.to(device, non_blocking=True) for factor in (inputs, errors))
        for parameter, is_weight, there in zip(self.parameters, self._weighs, present, strict=True):
            if there:
                added_to(parameter, errors.t() @ inputs if is_weight else errors.sum(0))

    @undisturbed
    def _look(self) -> None:
        """Somebody is about to look at a gradient. What comes in this step is added to it as ever: who looked may have
        kept it."""
        kept = self._late.kept
        final, self._late.kept, self._final = kept[: self._final], kept[self._final :], 0
        self._multiply_all(final)
        if any(gradient_of(parameter) is not None for parameter in self.parameters):
            self._late.never = LOOKED_AT
            self._late.why = self._late.why or LOOKED_AT

    def _kept(self) -> Sequence[Kept]:
        with self._late.lock:
            self._watched.end()
            kept, self._late.kept = self._late.kept, []
        self.why, self._late.why = self._late.why, ""
        if self._late.never == LOOKED_AT:
            self._late.never = ""
        return kept


def added_to(parameter: Parameter, gradient: Tensor) -> None:
    """Add a part of the gradient, which is not to be written to by others."""
    before = gradient_of(parameter)
    set_gradient(parameter, gradient if before is None else before + gradient)
