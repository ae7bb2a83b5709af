"""Which modules FSDP shards as one: by size, and only where nobody outside needs their parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.errors import TrainingError
from engine.replica.fsdp import groups
from engine.replica.sharded_use import check_shardable


def names(model: nn.Module, size: int) -> list[str]:
    by_module = {module: name for name, module in model.named_modules()}
    return [by_module[module] for module in groups(model, size)]


def linear(elements: int) -> nn.Linear:
    return nn.Linear(elements, 1, bias=False)


def test_modules_are_joined_until_they_are_large_enough() -> None:
    model = nn.Sequential(nn.Sequential(linear(10), linear(10)), linear(30), linear(5))
    assert names(model, 4 * 10) == ["0.0", "0.1", "1"]
    assert names(model, 4 * 20) == ["0", "1"]
    assert names(model, 4 * 31) == []


def test_what_is_in_a_group_counts_once() -> None:
    model = nn.Sequential(nn.Sequential(linear(10), linear(3)), linear(10))
    assert names(model, 4 * 10) == ["0.0", "1"]


def test_tied_parameters_stay_together() -> None:
    model = nn.Sequential(nn.Sequential(linear(10), linear(10)), linear(10))
    model[0][1].weight = model[0][0].weight
    assert names(model, 4 * 10) == ["0", "1"]
    model[1].weight = model[0][0].weight
    assert names(model, 4 * 10) == [], "only the root holds all three"


def test_containers_and_borrowed_children_are_no_groups() -> None:
    model = nn.Sequential(nn.ModuleList([linear(10), linear(10)]), nn.MultiheadAttention(4, 1))
    assert names(model, 4 * 11) == ["1"]
    assert names(model, 1) == ["0.0", "0.1", "1"]
    weights = nn.ParameterList([nn.Parameter(torch.ones(30))])
    assert names(nn.Sequential(weights, nn.ParameterDict({"only": weights[0]})), 1) == []


def test_another_type_is_a_group_of_its_own() -> None:
    model = nn.Sequential(linear(2).double(), linear(100))
    assert names(model, 10**6) == ["0"]
    assert [p.dtype for p in groups(model, 10**6)[0].parameters()] == [torch.float64]


def test_a_lazy_layer_that_was_never_called_is_refused_where_it_is_a_group() -> None:
    layer = nn.LazyLinear(3)
    model = nn.Sequential(layer)
    layer.initialize_parameters(torch.zeros(1, 2))
    check_shardable(model, [model])
    with pytest.raises(TrainingError, match=r"^0 is a LazyLinear that was never called.*Call the model once"):
        check_shardable(model, [layer, model])
    layer(torch.zeros(1, 2))
    check_shardable(model, [layer, model])
