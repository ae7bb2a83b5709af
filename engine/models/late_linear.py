"""A fully-connected layer that hands over its factors where autograd would multiply them (papers 000, section 2.1).

The gradient of y = x W^T + b over a backward pass is E^T X for W, and the column sums of E for b. X (rows, inputs)
are the layer's inputs and E (rows, outputs) the loss's derivatives by its outputs: one row for each sample, each
position of an input of more than two dimensions, each use of the layer and each micro-batch.

The layer's own forward is replaced, on this module only, by an autograd function that computes the same output and
the same derivative of the input, and keeps X and E in place of multiplying them. A hook on the module would not do:
autograd would multiply all the same.

X and E are kept only where they are all that autograd would make of them: in the backward pass of the step (`taking`),
where that pass accumulates into the layer's own parameters, and where nobody looks at the gradients on their way.
Everywhere else the function answers with the gradients themselves: where a loss asks for gradients by its inputs or by
the weight, where gradients are differentiated again, where a parameter has a hook. Those reach the parameter's `.grad`,
or whoever asked, as nn.Linear's own would; `why` then says what it was.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from types import MethodType
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import Parameter, functional

ELSEWHERE = "its parameters are also used outside of its own call, or inside of what is compiled"
"""Why a gradient came that nobody saw coming."""
LOOKED_AT = "the model looks at its gradient before that has left"
Present: TypeAlias = tuple[bool, ...]
"""For each trained parameter of a layer, whether something stands for its gradient."""
_Asked: TypeAlias = Literal["no", "accumulated", "returned"]


class Kept(NamedTuple):
    """What one use of the layer left in one backward pass; copies, which nobody else writes to."""

    inputs: Tensor
    """X (rows, inputs), of E's type."""
    errors: Tensor
    """E (rows, outputs)."""
    present: Present
    """Whose gradients they stand for."""


class LateLinear:
    """The factors of one torch.nn.Linear."""

    def __init__(self, module: nn.Linear, trained: Collection[str] = ("weight", "bias")) -> None:
        """`trained`: names of the module's own parameters whose gradients are wanted."""
        self.taking = False
        """Whether the backward pass that runs is the step's."""
        self.never = ""
        """Why no use is left to its factors for now; empty where uses are."""
        self.kept: list[Kept] = []
        self.lock = threading.RLock()
        """Around `kept`: a thread of the user's own may look while backward runs."""
        self.why = ""
        """Why the last gradient that was not left to the factors came as such."""
        self.parameters = [p for name, p in module.named_parameters(recurse=False) if name in trained]
        self.own_hooks: set[int] = set()
        """Ids of post-accumulate hooks on the parameters that only want to know when they are called."""
        self._module = module
        self._weight = module.weight
        self._bias = module.bias
        _LATE[module] = self
        # By its class's function, so that a copy of the module (an average of the model, say) is an ordinary layer.
        module.forward = MethodType(_forward, module)  # type: ignore[method-assign]

    def remove(self) -> None:
        """Let the module compute as ever."""
        del _LATE[self._module], self._module.forward

    def hooked(self) -> bool:
        """Whether somebody wants to see a gradient as it comes."""
        return any(
            parameter._backward_hooks or set(parameter._post_accumulate_grad_hooks or ()) - self.own_hooks
            for parameter in self.parameters
        )

    def _can_take(self, inputs: Tensor) -> bool:
        """Whether a use can be left to its factors, as far as forward knows."""
        if not torch.is_grad_enabled():
            return False
        module = self._module
        if module.weight is not self._weight or module.bias is not self._bias:
            self.why = "it is called with other tensors in place of its parameters"
        elif not module.weight.requires_grad:
            self.why = "its weight is frozen"
        elif torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
            self.why = "it is called inside a function that torch.func transforms"
        elif type(inputs) not in (Tensor, Parameter):
            self.why = f"it is called with a {type(inputs).__name__}"
        else:
            return True
        return False

    def _take(self, inputs: Tensor, errors: Tensor, asked: dict[str, _Asked]) -> bool:
        """Keep one use's factors, unless autograd has to see the gradients."""
        if torch.is_grad_enabled():
            self.why = "a loss differentiates what was differentiated by its inputs or outputs"
        elif asked["weight"] == asked["bias"] == "no":
            return False
        elif self.never:
            self.why = self.never
        elif not self.taking:
            self.why = "the model or its loss runs backward by itself"
        elif "returned" in asked.values():
            self.why = "the model asks for its gradients during the backward pass"
        elif asked["weight"] == "no":
            self.why = "its weight is frozen"
        elif self.hooked():
            self.why = "its parameters have hooks"
        else:
            present = tuple(
                parameter.requires_grad and asked["weight" if parameter is self._weight else "bias"] != "no"
                for parameter in self.parameters
            )
            if any(present):
                dtype = errors.dtype
                one = Kept(_rows(inputs, dtype), _rows(errors, dtype), present)
                with self.lock:
                    self.kept.append(one)
            return True
        return False


_LATE: WeakKeyDictionary[nn.Module, LateLinear] = WeakKeyDictionary()


def _forward(module: nn.Linear, input: Tensor) -> Tensor:
    """In place of nn.Linear's. What is being compiled has its gradients computed where all others are."""
    if not torch.compiler.is_compiling():
        late = _LATE.get(module)
        if late is not None and late._can_take(input):
            # One for each use: autocast's own cache is not to be asked, and whatever else is kept goes stale by writes
            # that nobody counts.
            weight = _as_computed(module.weight)
            copy = None if weight is module.weight else weight
            result: Tensor = _Linear.apply(_as_computed(input), module.weight, module.bias, late, copy)
            return result
    return functional.linear(input, module.weight, module.bias)


def _as_computed(values: Tensor) -> Tensor:
    """In the type in which autocast computes with `values`; they themselves where it takes them as they are."""
    device = values.device.type
    if values.dtype is torch.float64 or not values.is_floating_point():
        return values
    casts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return values.to(torch.get_autocast_dtype(device)) if casts else values


class _Linear(torch.autograd.Function):
    """(inputs, weight, bias, late, copy) -> inputs W^T + b. Under autocast it computes, and its factors come, in
    autocast's type, as those of nn.Linear: `inputs` have it, and so has `copy`, what autocast makes of the weight."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, late: LateLinear, copy: Tensor | None
    ) -> Tensor:
        # As with nn.Linear, autograd objects if they change before backward, and needs the weight for the inputs alone.
        # A copy does not change. It is an input, and not made here, so that what is differentiated again reaches the
        # weight.
        weight = weight if copy is None else copy
        ctx.save_for_backward(inputs, weight if ctx.needs_input_grad[0] else None)
        ctx.set_materialize_grads(False)  # no derivative is another thing than zeros: nothing is decayed then
        ctx.late = late
        ctx.names = ("inputs", "weight") if bias is None else ("inputs", "weight", "bias")
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, errors: Tensor | None) -> tuple[Tensor | None, ...]:
        """`errors`: the derivatives by the outputs. Differentiable where gradients are enabled."""
        if errors is None:
            return None, None, None, None, None
        asked = _asked_of(dict(zip(ctx.names, ctx.next_functions, strict=False)))
        inputs, weight = ctx.saved_tensors
        found: list[Tensor | None] = [None, None, None]
        if asked["inputs"] != "no":
            found[0] = (errors @ weight.to(errors.dtype)).to(inputs.dtype)
        if not ctx.late._take(inputs, errors, asked):
            rows = errors.reshape(-1, errors.shape[-1])
            if asked["weight"] != "no":
                found[1] = rows.t() @ inputs.reshape(-1, inputs.shape[-1]).to(errors.dtype)
            if asked["bias"] != "no":
                found[2] = rows.sum(0)
        return *found, None, None


def _rows(values: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy of `values` (..., columns) as rows: what a module holds, or a server updates, may change before the
    factors have left, and autograd may make a parameter's gradient of the derivatives' memory (`layer(x) + positions`
    of one sample does so), to which the next pass adds."""
    found = torch.empty(values.shape[:-1].numel(), values.shape[-1], dtype=dtype, device=values.device)
    found.view(values.shape).copy_(values.detach())
    return found


def _asked_of(edges: dict[str, tuple[Any, int]]) -> dict[str, _Asked]:
    """What the backward pass that runs wants of each input, by name: `ctx.needs_input_grad` says what forward knew, and
    in `torch.autograd.grad(loss, inputs)` that is too much."""
    found: dict[str, _Asked] = {"inputs": "no", "weight": "no", "bias": "no"}
    for name, (node, _) in edges.items():
        if node is not None:
            found[name] = _asked(node)
    return found


def _asked(node: Any) -> _Asked:
    """Of a tensor with this node: the question that torch's own `register_multi_grad_hook` asks."""
    try:
        return "accumulated" if torch._C._will_engine_execute_node(node) else "no"
    except RuntimeError:  # what is asked for by `torch.autograd.grad` is returned, and not accumulated
        return "returned"
