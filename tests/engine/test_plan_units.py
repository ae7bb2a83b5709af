"""Units: every element of what is trained travels exactly once, in pieces of the promised sizes and homes."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from engine.plan.description import ModelDescription
from engine.plan.plan import LayerPlan, Order, Plan, Servers
from engine.plan.units import Unit, cut
from tests.plans import (
    PLANNED,
    assert_every_element_once,
    described,
    made_up,
    planned,
    resolved,
    ring,
    served,
)

ODD = made_up(
    (7, (5, "float64"), 3),
    ((4, "float32", False), 11),
    (1,),
    (13, 2, (6, "bfloat16"), (6, "bfloat16")),
    ((9, "float32", False),),
)
"""Types that change within a layer, frozen parameters, a frozen layer, single elements."""


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_odd_layers_are_cut_exactly_once_too(size: int, shards: int) -> None:
    names = ("l0", "l1", "l2", "l3")
    sliced = [served(n, unit="slice", size=size) for n in names]
    whole = [served(n) for n in names]
    for layers in (sliced, whole, [sliced[0], whole[1], sliced[2], whole[3]]):
        servers = Servers(count=shards, where="dedicated", split_over=size)
        units = cut(resolved(ODD, *layers, servers=servers), ODD)
        assert_every_element_once(units, ODD)
        assert all(unit.shard in range(shards) for unit in units)
    buckets = [ring(n, order=Order(unit="bucket", size=size)) for n in names]
    assert_every_element_once(cut(resolved(ODD, *buckets), ODD), ODD)


@pytest.mark.parametrize("strategy", ["parameter-slicing", "p3"])
def test_slices_hold_at_most_their_size_and_go_to_the_emptiest_shard(strategy: str) -> None:
    model = described("alexnet")
    units = cut(planned(strategy, model, 4, slice_size=50_000), model)
    assert max(unit.count for unit in units) == 50_000
    loads = [0] * 4
    for unit in units:
        assert unit.shard == loads.index(min(loads))
        loads[unit.shard] += unit.count
    assert max(loads) - min(loads) <= 50_000
    per_layer = Counter(layer for unit in units for layer in unit.layers)
    for layer in model.layers:
        assert per_layer[layer.name] == -(-layer.parameter_count // 50_000)


def test_slices_run_from_weight_into_bias() -> None:
    model = made_up((5, 3))
    units = cut(resolved(model, served("l0", unit="slice", size=4), servers=Servers(count=1)), model)
    assert [[(s.parameter, s.start, s.stop) for s in unit.segments] for unit in units] == [
        [("l0.p0", 0, 4)],
        [("l0.p0", 4, 5), ("l0.p1", 0, 3)],
    ]


@pytest.mark.parametrize("strategy", ["parameter-server", "parameter-server-deferred"])
def test_kvstore_splits_large_layers_evenly_and_balances_small_ones(strategy: str) -> None:
    model = described("vgg19")
    units = cut(planned(strategy, model, 4), model)
    of_layer: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        of_layer[unit.layers[0]].append(unit)
    loads: Counter[int | None] = Counter()
    for layer in model.layers:
        parts = of_layer[layer.name]
        if layer.parameter_count > 1_000_000:
            assert [part.shard for part in parts] == [0, 1, 2, 3]
            assert max(p.count for p in parts) - min(p.count for p in parts) <= 1
        else:
            assert len(parts) == 1
        for part in parts:
            loads[part.shard] += part.count
    assert max(loads.values()) - min(loads.values()) <= 1_000_000


@pytest.mark.parametrize(
    ("count", "shards", "sizes"), [(9, 4, [2, 2, 2, 3]), (10, 3, [3, 3, 4]), (2, 4, [1, 1])]
)
def test_an_even_split_differs_by_at_most_one_element(count: int, shards: int, sizes: list[int]) -> None:
    model = made_up((count,))
    servers = Servers(count=shards, where="dedicated", split_over=1)
    assert [unit.count for unit in cut(resolved(model, served("l0"), servers=servers), model)] == sizes


def test_small_layers_avoid_the_shard_that_slices_have_filled() -> None:
    model = made_up((100,), (10,), (10,))
    layers = [served("l0", unit="slice", size=100), served("l1"), served("l2")]
    units = cut(resolved(model, *layers, servers=Servers(count=2)), model)
    assert [unit.shard for unit in units] == [0, 1, 1]


@pytest.mark.parametrize("strategy", ["ring-allreduce", "ring-allreduce-overlap", "native-allreduce"])
def test_buckets_join_layers_from_the_last_until_they_are_full(strategy: str) -> None:
    model = described("resnet50")
    largest = max(layer.parameter_bytes for layer in model.layers)
    bound = largest
    units = cut(planned(strategy, model, 2, bucket_bytes=bound), model)
    assert all(bound <= 4 * unit.count < bound + largest for unit in units[:-1])
    assert 0 < 4 * units[-1].count < bound + largest
    assert [n for unit in units for n in reversed(unit.layers)] == [x.name for x in reversed(model.layers)]
    assert all(unit.shard is None for unit in units)


@pytest.mark.parametrize("strategy", ["ring-allreduce", "ring-allreduce-overlap"])
def test_layers_larger_than_a_bucket_go_around_the_ring_in_slices(strategy: str) -> None:
    model = made_up((1000,), (10,), (2501,), (20,))
    units = cut(planned(strategy, model, 2, bucket_bytes=4000), model)
    assert [unit.count for unit in units if unit.layers == ("l2",)] == [1000, 1000, 501]
    assert [unit.count for unit in units if unit.layers == ("l0", "l1", "l3")] == [1030]


@pytest.mark.parametrize("strategy", ["ring-allreduce", "ring-allreduce-overlap", "tree-allreduce"])
def test_rounds_go_in_the_rank_that_was_asked_for(strategy: str) -> None:
    usual = "priority" if strategy == "ring-allreduce-overlap" else "fifo"
    for options, rank in (({}, usual), ({"rank": "fifo"}, "fifo"), ({"rank": "priority"}, "priority")):
        assert {layer.order.rank for layer in planned(strategy, "cnn", 2, **options).layers} == {rank}


def test_a_bucket_never_joins_different_types_or_choices() -> None:
    model = made_up((4,), (4,), ((4, "float64"),), (4,))
    order = Order(unit="bucket", size=1000)
    half = ring("l1", order=order, codec="fp16")
    plan = resolved(model, ring("l0", order=order), half, ring("l2", order=order), ring("l3", order=order))
    assert [unit.layers for unit in cut(plan, model)] == [("l3",), ("l2",), ("l1",), ("l0",)]


def test_frozen_parameters_never_travel() -> None:
    model = described("frozen")
    frozen = {p.name for p in model.parameters if not p.trainable}
    assert frozen
    for strategy in PLANNED:
        units = cut(planned(strategy, model, 2), model)
        assert not frozen & {s.parameter for unit in units for s in unit.segments}


def test_every_party_cuts_alike() -> None:
    """Keys on the wire are indices: the same plan and model give the same units everywhere."""
    plan, model = planned("p3", "resnet32", 3), described("resnet32")
    assert cut(plan, model) == cut(Plan(**vars(plan)), ModelDescription.from_dict(model.to_dict()))


def test_one_worker_without_exchange_has_units_without_a_home() -> None:
    model = made_up((3, 2), (4,))
    units = cut(resolved(model, LayerPlan(layer="l0"), LayerPlan(layer="l1"), workers=1), model)
    assert [(unit.layers, unit.count, unit.shard) for unit in units] == [
        (("l0",), 5, None),
        (("l1",), 4, None),
    ]
