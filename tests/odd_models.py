"""Models whose blocks do odd things, for memory mechanisms: each is to train as without one, or to be refused by name.

A model says with `trace` what a user may look at after a pass, beside parameters and buffers.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import random
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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


# --- what a block's code and modules come at ---

CALLS = 0
TABLE: dict[str, Any] = {"inner": {"calls": [0]}}
DICE = random.Random(3)


def counter() -> Any:
    """A function with a count of its own."""
    count = 0

    def next_one() -> int:
        nonlocal count
        count += 1
        return count

    return next_one


COUNT = counter()


def remembering(value: float, seen: list[float] = []) -> int:  # noqa: B006 - that is what it does
    seen.append(value)
    return len(seen)


class Held:
    """An object with an object."""

    def __init__(self) -> None:
        self.numbers = np.zeros(2)
        self.inner = types.SimpleNamespace(calls=0, seen=collections.deque([0], 4))


class Local(threading.local):
    calls = 0


class Keeps(Odd):
    """It takes a number that is another one in every pass from somewhere."""

    made: ClassVar[int] = 0

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.table: dict[str, Any] = {"a": {"b": [[0]]}}
        self.held = Held()
        self.pair = ([0], {"calls": 0})
        self.slotted = Slotted()
        self.local = Local()
        self.numpy = np.random.default_rng(1)
        self.old_numpy = np.random.RandomState(1)
        self.generator = torch.Generator().manual_seed(1)
        self.bytes = bytearray(2)
        self.array = array.array("d", [0.0])
        self.ones: set[int] = set()
        self.ordered = collections.OrderedDict(a=1, b=2)
        self.counts: collections.Counter[str] = collections.Counter()
        self.bound = self.pair[0].append
        self.partial = functools.partial(self.held.inner.seen.append, 1)
        self.state = (torch.zeros(WIDTH), [torch.zeros(WIDTH)])
        self.view = np.zeros(WIDTH, np.float32)
        self.tensor = torch.from_numpy(self.view)
        self.register_buffer("first", torch.zeros(2, WIDTH))
        self.second = self.first[1]

    def forward(self, x: Tensor, *given: Any) -> Any:
        return torch.tanh(self.linear(x) * getattr(self, self.where)())

    def a_global(self) -> Any:
        global CALLS  # noqa: PLW0603
        CALLS += 1
        return CALLS % 7

    def a_global_table(self) -> Any:
        TABLE["inner"]["calls"][0] += 1
        return TABLE["inner"]["calls"][0] % 7

    def a_global_generator(self) -> Any:
        return DICE.random()

    def a_closure(self) -> Any:
        return COUNT() % 7

    def a_default(self) -> Any:
        return remembering(1.0) % 7

    def a_function_attribute(self) -> Any:
        counter.calls = getattr(counter, "calls", 0) + 1
        return counter.calls % 7

    def a_class_attribute(self) -> Any:
        Keeps.made += 1
        return self.made % 7

    def nested_containers(self) -> Any:
        self.table["a"]["b"][0][0] += 1
        self.table["a"].setdefault("c", []).append({})
        return len(self.table["a"]["c"]) + self.table["a"]["b"][0][0]

    def an_object(self) -> Any:
        self.held.numbers += 0.5
        self.held.inner.calls += 1
        self.held.inner.seen.append(self.held.inner.calls)
        return float(self.held.numbers.sum()) + self.held.inner.seen[0]

    def a_tuple(self) -> Any:
        self.pair[0][0] += 1
        self.pair[1]["calls"] += 2
        return self.pair[0][0] * self.pair[1]["calls"] % 7

    def slots(self) -> Any:
        self.slotted.calls += 1
        self.slotted.losses.append(1.0)
        return self.slotted.calls + len(self.slotted.losses)

    def a_thread_local(self) -> Any:
        self.local.calls += 1
        return self.local.calls

    def numpy_generator(self) -> Any:
        return float(self.numpy.random())

    def numpy_random_state(self) -> Any:
        return float(self.old_numpy.rand())

    def torch_generator(self) -> Any:
        return torch.rand(WIDTH, generator=self.generator)

    def bytes_and_array(self) -> Any:
        self.bytes[0] += 1
        self.array[0] += 0.5
        self.array.append(1.0)
        return self.bytes[0] + self.array[0] + len(self.array)

    def a_set(self) -> Any:
        self.ones.add(len(self.ones))
        return len(self.ones)

    def dictionaries(self) -> Any:
        self.ordered.move_to_end(next(iter(self.ordered)))
        self.counts["calls"] += 1
        return self.counts["calls"] + next(iter(self.ordered.values()))

    def a_bound_method(self) -> Any:
        self.bound(1)
        self.partial()
        return len(self.pair[0]) + len(self.held.inner.seen)

    def tensors_in_a_tuple(self) -> Any:
        self.state[0].add_(0.1)
        self.state[1][0] = self.state[1][0] + 0.2
        return self.state[0] + self.state[1][0]

    def an_array_under_a_tensor(self) -> Any:
        self.view += 0.25
        return self.tensor.clone()

    def a_view(self) -> Any:
        self.second.add_(0.5)
        return self.first.sum(0)

    def trace(self) -> Any:
        own = [
            CALLS, TABLE, DICE.random(), Keeps.made, self.table, self.held.numbers.tolist(), vars(self.held.inner),
            self.pair, self.slotted.calls, self.slotted.losses, self.local.calls, self.numpy.random(),
            self.old_numpy.rand(), torch.rand(1, generator=self.generator), self.bytes, self.array.tolist(),
            self.ones, list(self.ordered), self.counts, self.view.tolist(), self.state,
            vars(counter), remembering.__defaults__, COUNT(),
        ]  # fmt: skip
        return repr(own)


KEEPS = [
    name for name in list(vars(Keeps))[list(vars(Keeps)).index("a_global") :] if name not in ("trace", "made")
]


def fresh() -> None:
    """Let files' names hold what they did when they were imported."""
    global CALLS, COUNT  # noqa: PLW0603
    CALLS, Keeps.made, FLAG[0] = 0, 0, False
    COUNT = counter()
    TABLE["inner"] = {"calls": [0]}
    DICE.seed(3)
    vars(counter).clear()
    remembering.__defaults__[0].clear()  # type: ignore[index]


# --- writes that nobody counts ---


class LateData(Odd):
    """From the fourth pass on it writes through `.data`, to a small buffer or to one that is large."""

    def __init__(self, rows: int, seen: bool) -> None:
        super().__init__()
        self.calls = 0
        self.seen = seen
        self.register_buffer("table", torch.zeros(rows, WIDTH))

    def forward(self, x: Tensor, *given: Any) -> Any:
        self.calls += 1
        if self.calls > 3:
            self.table.data[0] += 1
        return torch.tanh(self.linear(x) + (self.table[0] if self.seen else 0))


class Momentum(Odd):
    """A second encoder follows the first one, as in MoCo, and a queue keeps what it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.follower = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.register_buffer("queue", torch.zeros(8, WIDTH))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self, x: Tensor) -> Tensor:
        for own, other in zip(self.follower.parameters(), self.linear.parameters(), strict=True):
            own.data = own.data * 0.9 + other.data * 0.1
        key = self.follower(x)
        at = int(self.at)
        self.queue[at] = key.mean(0)
        self.at[0] = (at + 1) % 8
        return key

    def forward(self, x: Tensor, *given: Any) -> Any:
        key = self.follow(x)
        return torch.tanh(self.linear(x)) * (key + self.queue.clone().sum(0))


class FirstBatch(Odd):
    """Its parameters are made of the first batch, as ActNorm's."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("done", torch.zeros((), dtype=torch.bool))

    def forward(self, x: Tensor, *given: Any) -> Any:
        if not self.done:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.done.fill_(True)
        return torch.tanh(self.linear(x + self.shift))


# --- what crashed ---


class Mapped(Odd):
    """It is mapped over its rows by torch.func.vmap."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        return torch.func.vmap(lambda row: torch.tanh(self.linear(row)))(x)


class SparseGiven(Odd):
    def forward(self, x: Tensor, graph: Any) -> Any:
        return torch.tanh(self.linear(torch.sparse.mm(graph, x)))


class WithSparse(Model):
    def forward(self, x: Tensor) -> Any:
        graph = torch.eye(len(x)).mul(0.5).to_sparse()
        for block in self.blocks:
            x = block(x, graph)
        return x


class SparseHeld(Odd):
    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.graph = torch.eye(WIDTH).to_sparse()
        self.other = torch.eye(WIDTH).to_sparse_csr()
        self.counts = counts

    def forward(self, x: Tensor, *given: Any) -> Any:
        if self.counts:
            self.graph = self.graph * 1.1
        mixed = torch.sparse.mm(self.graph, x.t()) + torch.sparse.mm(self.other, x.t())
        return torch.tanh(self.linear(mixed.t()))


SHARED: dict[str, Any] = {}


class Shares(Odd):
    """Sublayers that have one dictionary among them."""

    class Part(nn.Module):
        def __init__(self, shared: dict[str, Any]) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.shared = shared

        def forward(self, x: Tensor) -> Tensor:
            self.shared["calls"] = self.shared.get("calls", 0) + 1
            self.shared.setdefault("mean", []).append(float(x.detach().mean()))
            return torch.tanh(self.linear(x) * self.shared["calls"] + len(self.shared["mean"]) / 9)

    def __init__(self) -> None:
        super().__init__()
        self.shared: dict[str, Any] = {}
        self.parts = nn.Sequential(self.Part(self.shared), self.Part(self.shared))
        self.parts[1]._buffers = self.parts[0]._buffers

    def forward(self, x: Tensor, *given: Any) -> Any:
        return self.parts(self.linear(x))

    def trace(self) -> Any:
        return self.shared


class Conjugate(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = self.linear(x)
        return torch.complex(hidden, hidden.sin()).conj()


class WithConjugate(Model):
    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = torch.view_as_real(block(x).resolve_conj()).sum(-1)
        return x


class Force(Odd):
    """It answers with the derivative of what it computes by its input, which is differentiated again."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        x = x.detach().requires_grad_() if not x.requires_grad else x
        energy = torch.tanh(self.linear(x)).square().sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force + x * energy


class Tree(Odd):
    """It calls itself for the halves of its input."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        if len(x) == 1:
            return torch.tanh(self.linear(x))
        half = len(x) // 2
        return torch.cat([self(x[:half]), self(x[half:])]) + self.linear(x)


class Older(Odd):
    """A part of it is checkpointed in PyTorch's older way."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = self.linear(x)
        return torch.tanh(checkpoint(torch.sin, hidden, use_reentrant=True))


TEMPERATURE = contextvars.ContextVar("temperature", default=1.0)


class Contextual(Odd):
    def forward(self, x: Tensor, *given: Any) -> Any:
        TEMPERATURE.set(TEMPERATURE.get() + 1)
        return torch.tanh(self.linear(x) / TEMPERATURE.get())


class WithContext(Model):
    def forward(self, x: Tensor) -> Any:
        TEMPERATURE.set(2.0)
        for block in self.blocks:
            x = block(x)
        self.said.append(TEMPERATURE.get())
        TEMPERATURE.set(9.0)
        return x


@dataclass
class Answer:
    hidden: Tensor
    name: str


class Answers(Odd):
    """It answers with an object, and leaves something in an attribute that its caller uses."""

    def forward(self, x: Tensor, *given: Any) -> Any:
        hidden = torch.tanh(self.linear(x))
        self.last = hidden.sin()
        return Answer(hidden, "answer")


class WithAnswers(Model):
    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x).hidden + block.last
        return x
