"""Capture: a fully-connected layer's factors, kept where its gradient would be computed (papers 000, section 2.1).

The gradient of y = x W^T + b over a step is E^T X for W, and the column sums of E for b. X (rows, inputs) are
the layer's inputs and E (rows, outputs) the loss's derivatives by its outputs: one row for each sample, each
position of an input of more than two dimensions, each use of the layer and each micro-batch. Every loss is
divided by the global batch's weight before it is differentiated, so E is scaled already and products are
summed, never averaged.

The layer's own forward is replaced, on this module only, by an autograd function that computes the same output
and the same derivative of the input, and hands X and E over in place of multiplying them. So the local product
is not computed in vain, and the gradient of the weight does not exist before all workers' factors are there. A
hook on the module would not do: autograd would multiply all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import Parameter, functional

from engine.errors import TrainingError


class Capture(ABC):
    """The factors of one layer on this worker, from its uses to its gradient."""

    def __init__(self, layer: str, parameters: Sequence[Parameter], *, inputs: int, outputs: int) -> None:
        """`parameters`: those that are trained. `inputs`, `outputs`: columns of X and E."""
        self.inputs = inputs
        self.outputs = outputs
        self.dtype = parameters[0].dtype
        """In which factors are multiplied: the parameters' own."""
        self._layer = layer
        self._parameters = parameters
        self._factors: list[tuple[Tensor, Tensor]] = []
        self._forward = False
        self._uses = 0
        """Of the step's forward passes, whose derivatives have not come."""
        self._when_complete: list[Callable[[], None]] = []
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._refuse)

    def when_complete(self, call: Callable[[], None]) -> None:
        """Call it when the derivatives of all uses in a pass have come."""
        self._when_complete.append(call)

    def begin_step(self) -> None:
        self._uses = 0  # uses that never had a derivative are no longer waited for

    def begin_forward(self) -> None:
        self._forward = True

    def end_forward(self) -> None:
        """What uses the layer from now on recomputes a use that was counted, or one that had no derivative to count."""
        self._forward = False

    def take(self) -> tuple[Tensor, Tensor]:
        """X (rows, inputs) and E (rows, outputs) of the step so far, contiguous and of one type; they begin anew."""
        factors, self._factors = self._factors, []
        if not factors:
            like = self._parameters[0]
            return like.new_empty(0, self.inputs), like.new_empty(0, self.outputs)
        if len(factors) == 1:
            return factors[0][0].contiguous(), factors[0][1].contiguous()
        return torch.cat([x for x, _ in factors]), torch.cat([e for _, e in factors])

    @abstractmethod
    def multiply(self, inputs: Tensor, errors: Tensor) -> None:
        """Set the layer's gradients from all workers' factors, on the host, in `dtype`, stacked in the order of
        the ranks. Where there are no rows, nobody used the layer, and its gradients stay absent."""

    def _used(self) -> None:
        if self._forward:
            self._uses += 1

    def _came(self, inputs: Tensor, errors: Tensor) -> None:
        """The derivatives of one use: 2-D, of one type, not to be changed any more."""
        self._factors.append((inputs, errors))
        self._uses -= 1
        if self._uses <= 0:
            for call in self._when_complete:
                call()

    def _refuse(self, parameter: Tensor) -> None:
        if parameter.grad is None:  # the hook is called for our own function, too, which has none
            return
        raise TrainingError(
            f"{self._layer} travels by factors, but its parameters were also used outside of its own call, and that"
            " part of the gradient is no product of inputs and error derivatives."
            " Choose another exchange for this layer"
        )


class LinearCapture(Capture):
    """Of a torch.nn.Linear."""

    def __init__(self, layer: str, module: nn.Linear, fixed: frozenset[int]) -> None:
        """`fixed`: addresses of the model's parameters and buffers. Inputs that lie there are copied: they may change
        once backward has passed, and before they have left."""
        super().__init__(
            layer,
            [p for p in module.parameters(recurse=False) if p.requires_grad],
            inputs=module.in_features,
            outputs=module.out_features,
        )
        self._module = module
        self._fixed = fixed
        module.forward = self._call  # type: ignore[method-assign]

    def multiply(self, inputs: Tensor, errors: Tensor) -> None:
        """E^T X, and E's column sums, in the parameters' own precision."""
        if len(inputs) == 0:
            return
        weight, bias = self._module.weight, self._module.bias
        inputs, errors = (factor.to(weight.device, non_blocking=True) for factor in (inputs, errors))
        with torch.no_grad():
            weight.grad = errors.t() @ inputs
            if bias is not None and bias.requires_grad:
                bias.grad = errors.sum(0)

    def _call(self, input: Tensor) -> Tensor:
        module = self._module
        if not torch.is_grad_enabled():
            return functional.linear(input, module.weight, module.bias)
        self._used()
        result: Tensor = _Linear.apply(input, module.weight, module.bias, self._keep)
        return result

    def _keep(self, inputs: Tensor, errors: Tensor) -> None:
        """Inputs (..., inputs) and errors (..., outputs) of one use, as autograd has them."""
        inputs = inputs.detach()  # or it would keep the pass's graph
        if inputs.untyped_storage().data_ptr() in self._fixed:
            inputs = inputs.clone()
        # A copy: autograd may make a parameter's gradient of the same memory (`layer(x) + positions.unsqueeze(0)` of
        # one sample does so), to which the next pass adds, and into which an exchange writes the sum.
        errors = errors.reshape(-1, self.outputs).clone(memory_format=torch.contiguous_format)
        self._came(inputs.reshape(-1, self.inputs).to(errors.dtype), errors)


class _Linear(torch.autograd.Function):
    """(inputs, weight, bias, keep) -> inputs W^T + b, with no gradients of weight and bias: `keep` gets their factors.
    Under autocast it computes, and its factors come, in autocast's type, as those of nn.Linear."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        keep: Callable[[Tensor, Tensor], None],
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)  # autograd objects, as ever, if they change before backward
        ctx.keep = keep
        return functional.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor | None, ...]:
        """`errors`: the loss's derivatives by the outputs."""
        inputs, weight = ctx.saved_tensors
        found = errors @ weight.to(errors.dtype) if ctx.needs_input_grad[0] else None
        ctx.keep(inputs, errors)
        return found if found is None else found.to(inputs.dtype), None, None, None
