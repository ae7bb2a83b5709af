"""A user's model, compiled as a whole or in part, in every way in which people compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.backends.registry import lookup_backend
from torch.utils.checkpoint import checkpoint


class Middle(nn.Module):
    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(24, 24)
        self.norm = nn.BatchNorm1d(24)
        self.outer = nn.Sequential(nn.Linear(24, 24), nn.Tanh())
        self.breaks = breaks

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.norm(self.inner(x)))
        if self.breaks:
            torch._dynamo.graph_break()
        found: Tensor = self.outer(x)
        return found


class Net(nn.Module):
    """One weight is used inside and outside of the middle, another one is read outside of it; `calls` counts what the
    compiler has made, so that it shows whether anything was compiled."""

    def __init__(self, breaks: bool = False, again: bool = False, clamp: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.tied = nn.Linear(24, 24)
        self.middle = Middle(breaks)
        self.last = nn.Linear(24, 10)
        self.tied.weight = self.middle.inner.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.tail: nn.Module | None = None
        self.again = again
        self.clamp = clamp

    def forward(self, x: Tensor) -> Tensor:
        if self.clamp:
            with torch.no_grad():
                self.first.weight.clamp_(-0.1, 0.1)
        x = torch.tanh(self.tied(torch.tanh(self.first(x.flatten(1)))))
        x = checkpoint(self.middle, x, use_reentrant=False) if self.again else self.middle(x)
        return self.head(x) + self.middle.outer[0].weight.square().mean()

    def head(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(x) if self.tail is None else self.tail(x)
        return logits


def whole(backend: str = "eager", **options: Any) -> nn.Module:
    """As a wrapped module."""
    net = Net(**options)
    compiled: nn.Module = torch.compile(net, backend=_counting(net, backend))  # type: ignore[assignment]
    return compiled


def in_place(backend: str = "eager", **options: Any) -> nn.Module:
    net = Net(**options)
    net.compile(backend=_counting(net, backend))
    return net


def part(backend: str = "eager", **options: Any) -> nn.Module:
    """A wrapped module of the model."""
    net = Net(**options)
    net.middle = torch.compile(net.middle, backend=_counting(net, backend))  # type: ignore[assignment]
    return net


def forward(backend: str = "eager", **options: Any) -> nn.Module:
    """A module's forward."""
    net = Net(**options)
    net.middle.forward = torch.compile(net.middle.forward, backend=_counting(net, backend))  # type: ignore[method-assign]
    return net


def function(backend: str = "eager", **options: Any) -> nn.Module:
    """A function, of which nothing says what it reads."""
    net = Net(**options)
    net.head = torch.compile(net.head, backend=_counting(net, backend))  # type: ignore[method-assign]
    return net


class Kept(nn.Module):
    """Reads a module that is registered elsewhere."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.own = nn.Linear(24, 24)
        self.kept = [net.last]

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.kept[0](torch.tanh(self.own(x)))
        return found


def elsewhere(backend: str = "eager", **options: Any) -> nn.Module:
    """A module that reads what is not below it."""
    net = Net(**options)
    net.tail = Kept(net)
    net.tail.compile(backend=backend)  # which reads of a closed one are compiled is another number each time
    return net


class Twice(nn.Sequential):
    """Adds the size of its derivatives by its inputs. Of compiled code these cannot be differentiated, but torch does
    not compile a Linear that was asked to compile itself and has no hooks."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            scores: Tensor = super().forward(x)
            (by_inputs,) = torch.autograd.grad(scores.square().sum(), x, create_graph=True)
        return scores + by_inputs.square().mean()


def differentiated(backend: str = "eager", truly: bool = False) -> nn.Module:
    net = Twice(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))
    for layer in net:
        layer.compile(backend=backend)
    if truly:
        net[1].forward = torch.compile(net[1].forward, backend=backend)  # type: ignore[method-assign]
    return net


def row(where: str, backend: str = "eager") -> nn.Module:
    """A model that torch.fx can trace."""
    net = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 24),
        nn.Tanh(),
        nn.Sequential(nn.Linear(24, 24), nn.Tanh()),
        nn.Linear(24, 10),
    )
    if where == "whole":
        net.compile(backend=backend)
    else:
        net[3] = torch.compile(net[3], backend=backend)  # type: ignore[assignment]
    return net


def _counting(net: Net, name: str) -> Callable[..., Any]:
    """The compiler's backend called `name`, whose code counts its calls."""

    if name == "inductor":
        _without_vectors()

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        made = lookup_backend(name)(graph, inputs)

        def run(*values: Any) -> Any:
            net.calls.add_(1)
            return made(*values)

        return run

    return backend


def _without_vectors() -> None:
    """Plain machine code: for vector instructions inductor first compiles and runs a program for each kind of them, to
    see what the compiler and the processor have, and that takes longer than the model's own code."""
    from torch._inductor import config  # noqa: PLC0415 - loading it takes a second

    config.cpp.vec_isa_ok = False
