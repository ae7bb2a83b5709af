"""Models whose blocks do odd things, for memory mechanisms: each is to train as without one, or to be refused by name.

A model says with `trace` what a user may look at after a pass, beside parameters and buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

WIDTH = 6


class Odd(nn.Module):
    """A linear layer with something around it: the block of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, *given: Any) -> Any:
        raise NotImplementedError

    def trace(self) -> Any:
        """What it has kept."""
        return None


class Model(nn.Module):
    """Two blocks of a kind, called one after the other."""

    def __init__(self, kind: type[Odd], *made: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([kind(*made), kind(*made)])
        self.said: list[Any] = []

    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        return x

    def trace(self) -> Any:
        return [self.said, [block.trace() for block in self.blocks]]


# --- arguments that a block fills or changes ---


class FillsList(Odd):
    def forward(self, x: Tensor, found: Any) -> Any:
        hidden = torch.tanh(self.linear(x))
        found.append(hidden * len(found))
        return hidden


class WithList(Model):
    """The caller goes on with what blocks have put into its list."""

    def forward(self, x: Tensor) -> Any:
        found: list[Tensor] = [x]
        for block in self.blocks:
            x = block(x, found)
        self.said.append(len(found))
        return x + torch.stack(found).sum(0)


class ChangesDict(Odd):
    def forward(self, x: Tensor, state: Any) -> Any:
        state["count"] += 1
        state["inner"]["seen"].append(float(state["count"]))
        hidden = torch.tanh(self.linear(x) * state["count"] * state["scale"])
        state["hidden"] = hidden * 2
        return hidden + len(state["inner"]["seen"])


class WithDict(Model):
    """... and changes the dictionary itself between the blocks and after them."""

    def forward(self, x: Tensor) -> Any:
        state = {"count": 0, "scale": 1.0, "inner": {"seen": []}}
        for number, block in enumerate(self.blocks):
            state["scale"] = 0.5 + number
            x = block(x, state) + state["hidden"]
        state["scale"] = 9.0
        self.said.append((state["count"], state["inner"]))
        return x


@dataclass
class Context:
    calls: int = 0
    losses: list[Any] = field(default_factory=list)
    cache: dict[str, Any] = field(default_factory=dict)


class Slotted:
    __slots__ = ("cache", "calls", "losses")

    def __init__(self) -> None:
        self.calls = 0
        self.losses: list[Any] = []
        self.cache: dict[str, Any] = {}


class ChangesObject(Odd):
    def forward(self, x: Tensor, context: Any) -> Any:
        context.calls += 1
        hidden = self.linear(x) * context.calls
        before = context.cache.get("hidden")
        if before is not None:
            hidden = hidden + before
        context.cache["hidden"] = hidden
        context.losses.append(hidden.square().mean())
        return torch.tanh(hidden)


class WithObject(Model):
    """An object that is made anew in every pass, and that both blocks change."""

    def __init__(self, kind: type[Odd], make: Any) -> None:
        super().__init__(kind)
        self.make = make

    def forward(self, x: Tensor) -> Any:
        context = self.make()
        for block in self.blocks:
            x = block(x, context)
        self.said.append((context.calls, len(context.losses)))
        return x + torch.stack(context.losses).sum()


class Growing(list[Any]):
    """A list of a user's own, with an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.added = 0

    def append(self, value: Any) -> None:
        self.added += 1
        super().append(value)


class FillsGrowing(Odd):
    def forward(self, x: Tensor, found: Any) -> Any:
        hidden = torch.sin(self.linear(x)) * (1 + found.added)
        found.append(hidden)
        return hidden


class WithGrowing(Model):
    def forward(self, x: Tensor) -> Any:
        found = Growing()
        for block in self.blocks:
            x = block(x, found)
        self.said.append((found.added, len(found)))
        return x + found[0]


class WritesArray(Odd):
    def forward(self, x: Tensor, numbers: Any) -> Any:
        numbers[0] += 1
        return torch.tanh(self.linear(x) * float(numbers[0]))


class WithArray(Model):
    def __init__(self, kind: type[Odd]) -> None:
        super().__init__(kind)
        self.numbers = np.zeros(3)

    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x, self.numbers)
        self.said.append(self.numbers.tolist())
        return x


class WritesParts(Odd):
    """It writes to tensors in what it is given: a slice, in a tuple, in a list."""

    def forward(self, x: Tensor, given: Any) -> Any:
        part, (other, *_) = given
        part.mul_(2)
        other.data.add_(1)
        return torch.sigmoid(self.linear(x) + part.sum() * other)


class WithParts(Model):
    def forward(self, x: Tensor) -> Any:
        given = [torch.ones(4, 8)[:, 2:5], (torch.full((WIDTH,), 0.1), "text")]
        for block in self.blocks:
            x = block(x, given)
        self.said.append([given[0].tolist(), given[1][0].tolist()])
        return x


class TwiceGiven(Odd):
    """One list comes to it by two ways, and the block keeps a third."""

    def __init__(self) -> None:
        super().__init__()
        self.own: list[float] = []

    def forward(self, x: Tensor, one: Any, other: Any, own: Any) -> Any:
        one.append(1.0)
        own.append(2.0)
        return torch.tanh(self.linear(x) * len(other) + len(self.own))

    def trace(self) -> Any:
        return self.own


class WithTwice(Model):
    def forward(self, x: Tensor) -> Any:
        both: list[float] = []
        for block in self.blocks:
            x = block(x, both, both, block.own)
        self.said.append(len(both))
        return x


class Calls(Odd):
    """It calls what it is given: a function with a count, a method of its caller's, a module with statistics."""

    def forward(self, x: Tensor, function: Any, method: Any, *, module: Any) -> Any:
        hidden = function(module(self.linear(x)))
        method(float(hidden.detach().sum()))
        return torch.tanh(hidden)


class WithCalls(Model):
    def __init__(self, kind: type[Odd]) -> None:
        super().__init__(kind)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Any:
        count = 0

        def counted(value: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return value * count

        for block in self.blocks:
            x = block(x, counted, self.said.append, module=self.norm)
        self.said.append(count)
        return x


# --- code behind the last tensor that is saved ---

FLAG = [False]


class TemporaryHook(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        handle = self.linear.register_forward_hook(lambda module, args, output: output * 1.5)
        hidden = torch.tanh(self.linear(x))
        handle.remove()
        return hidden

    def trace(self) -> Any:
        return len(self.linear._forward_hooks)


class GlobalFlag(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        before = FLAG[0]
        FLAG[0] = True
        hidden = torch.tanh(self.linear(x)) if not before else self.linear(x) * 3
        FLAG[0] = False
        return hidden

    def trace(self) -> Any:
        return FLAG[0]


@contextmanager
def flagged() -> Iterator[None]:
    FLAG[0] = not FLAG[0]
    yield
    FLAG[0] = not FLAG[0]


class InContext(Odd):
    left = False

    def forward(self, x: Tensor, *given: Any) -> Any:
        with flagged():
            hidden = torch.tanh(self.linear(x) * (2 if FLAG[0] else 1))
        self.left = FLAG[0]
        return hidden

    def trace(self) -> Any:
        return FLAG[0], self.left


# --- changes from outside between forward and backward ---


class Plain(Odd):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.options = {"shift": [0.5]}
        self.inner = nn.Dropout(0.3)
        self.register_buffer("offset", torch.zeros(WIDTH))

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = (
            self.linear(x) * self.scale + self.options["shift"][0] + self.offset * self.options.get("more", 1)
        )
        return torch.tanh(self.inner(hidden))

    def trace(self) -> Any:
        return self.scale, self.options, self.training, len(self._forward_hooks), list(vars(self))


class Changed(Model):
    """After the blocks have run, and before backward, the model changes them."""

    def __init__(self, kind: type[Odd], change: Any) -> None:
        super().__init__(kind)
        self.change = change

    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            block.train()
            x = block(x)
        for block in self.blocks:
            self.change(block)
        return x


def _sets(block: Any) -> None:
    block.scale += 1.0
    block.new = "something"


def _fills(block: Any) -> None:
    block.options["shift"][0] += 1
    block.options["more"] = 3


def _writes(block: Any) -> None:
    block.offset.add_(1)


def _writes_data(block: Any) -> None:
    block.offset.data.add_(1)


def _replaces(block: Any) -> None:
    block.offset = block.offset + 1
    block.inner = nn.Dropout(0.1)


def _evaluates(block: Any) -> None:
    block.eval()


def _hooks(block: Any) -> None:
    if not block._forward_hooks:
        block.register_forward_hook(lambda module, args, output: output * 2)
    else:
        block._forward_hooks.clear()


def _freezes(block: Any) -> None:
    block.linear.bias.requires_grad_(not block.linear.bias.requires_grad)
