"""Odd models that keep something from pass to pass, wherever their code and their modules come at it."""

from __future__ import annotations

import array
import collections
import functools
import random
import threading
import types
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tests.odd_models import FLAG, WIDTH, Odd, Slotted

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
