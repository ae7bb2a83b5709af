"""A user's models that decide themselves what PyTorch's functions do with tensors, when they read their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Passing(Tensor):
    """Switches all of its like off around each function."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class Counting(Tensor):
    """Counts how often it was asked."""

    asked = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked += 1
        return super().__torch_function__(function, types, args, kwargs or {})


class Halved(nn.Parameter):
    """Says that it has half of its dimensions."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = function(*args, **(kwargs or {}))
            return found // 2 if function is Tensor.dim else found


def _nested(x: Tensor, bias: Tensor) -> Tensor:
    offsets = torch.tensor([0, 2, len(x)], device=x.device)
    summed: Tensor = torch.nested.nested_tensor_from_jagged(x, offsets) + bias
    return summed.values()


def _switched_off(x: Tensor, bias: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return x + bias


def _counted(x: Tensor, bias: Tensor) -> Tensor:
    before = Counting.asked
    summed = (x.as_subclass(Counting) + bias).as_subclass(Tensor)
    return summed * float(Counting.asked - before)


def _asked_for(x: Tensor, bias: Tensor) -> Tensor:
    return x + bias * (2.0 if torch.overrides.has_torch_function((bias,)) else 1.0)


HOW: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nested": _nested,
    "passing": lambda x, bias: (x.as_subclass(Passing) + bias).as_subclass(Tensor),
    "switched off": _switched_off,
    "counted": _counted,
    "asked for": _asked_for,
    "halved": lambda x, bias: x + bias * bias.dim(),
}


class Model(nn.Module):
    """Adds a parameter that no module owns, of which autograd saves nothing."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.last = nn.Linear(64, 24), nn.Linear(24, 10)
        made = Halved if how == "halved" else nn.Parameter
        self.biases = nn.ParameterList([made(torch.linspace(-1, 1, 24)), made(torch.linspace(1, 2, 24))])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x.flatten(1)))
        real = x.device.type != "meta"  # nested tensors are not described
        x = HOW[self.how](x, self.biases[1]) if real else x + self.biases[1]
        logits: Tensor = self.last(torch.tanh(x) + self.biases[0])
        return logits


def model(how: str) -> nn.Module:
    return Model(how)
