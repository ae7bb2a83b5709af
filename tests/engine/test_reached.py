"""What a walk from a block finds, under which names, and where it stops."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

from engine.instrumentation.containers import contents, refill
from engine.memory import walk as walking
from engine.memory.places import MOST, place_of
from engine.memory.walk import Walk

NUMBERS = {"a": [1, 2], "b": {3}}
UNNAMED = [0]


def helper() -> Any:
    return NUMBERS


def enclosing(value: Any) -> Any:
    def inner() -> Any:
        return value, helper()

    return inner


class Block(nn.Module):
    shared: tuple[list[int], ...] = ([7],)

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.nested = {"one": [{"two": torch.zeros(2)}]}
        self.space = types.SimpleNamespace(array=np.zeros(2))
        self.call = functools.partial(enclosing([5]))
        self.register_forward_hook(lambda module, args, output: output + len(NUMBERS))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def names(*roots: Any) -> set[str]:
    return {place.name for place in Walk([("it", root) for root in roots]).places}


def test_what_is_nested_is_found_by_name() -> None:
    found = names(Block())
    assert {
        "it", "it.linear", "it.nested", "it.nested['one']", "it.nested['one'][0]", "it.space", "it.space.array",
        "NUMBERS", "NUMBERS['a']", "NUMBERS['b']", "value", "Block", "Block.shared[0]", __name__,
    } <= found  # fmt: skip
    assert "UNNAMED" not in found


def test_tensors_are_found_once_with_a_name() -> None:
    block = Block()
    block.again = block.nested["one"][0]["two"]
    assert sorted(name for name, _ in Walk([("it", block)]).tensors.values()) == [
        "it.again", "it.linear.bias", "it.linear.weight",
    ]  # fmt: skip


def test_libraries_are_not_entered() -> None:
    assert names(nn.Linear(2, 2)) == {"it"}
    assert names(torch.nn.functional.relu, np, torch, print, len) == set()


def test_functions_of_a_traced_graph_are_entered() -> None:
    def called(x: Tensor) -> Tensor:
        return x * len(helper())

    graph = fx.Graph()
    graph.output(graph.call_function(called, (graph.placeholder("x"),)))
    assert "NUMBERS" in names(fx.GraphModule(nn.Module(), graph))


def test_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    chain: list[Any] = []
    for _ in range(5_000):
        chain = [chain]
    assert len(Walk([("it", chain)]).places) == walking.MOST_PLACES
    monkeypatch.setattr(walking, "MOST_TENSORS", 3)
    assert len(Walk([("it", [torch.zeros(1) for _ in range(9)])]).tensors) == 3


def test_a_long_container_is_told_by_its_length() -> None:
    container = [[] for _ in range(MOST + 1)]
    walk = Walk([("it", container)])
    assert len(walk.places) == 1
    container[3] = [1]
    assert walk.places[0].same(walk.held[0])
    container.append([])
    assert not walk.places[0].same(walk.held[0])


class Frozen(dict[str, int]):
    def _refuse(self, *_: Any) -> None:
        raise TypeError("immutable")

    clear = update = __setitem__ = __len__ = _refuse  # type: ignore[assignment]


def test_containers_are_read_and_filled_by_pythons_own_methods() -> None:
    frozen = Frozen(a=1)
    place = place_of("it", frozen)
    assert place is not None
    held = place.read()
    dict.__setitem__(frozen, "b", 2)
    assert not place.same(held)
    refill(frozen, held)
    assert contents(frozen) == ["a", 1]
