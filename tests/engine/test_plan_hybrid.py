"""Plans with layers on one device: the automatic cut, the paper's bytes, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import UserError
from engine.plan.cluster import cluster_of, parties
from engine.plan.plan import DeviceParty, Edge, LayerPlan, Plan
from engine.plan.rules import resolve
from engine.plan.scaling import scaled_model
from engine.preview import rows, text
from engine.simulate.declared import declared, wire_bytes
from engine.strategies import build_plan
from tests.plans import described, job, made_up

MIB = 2**20
DEDICATED = {"where": "dedicated", "reducer": "dedicated"}


def alexnet(workers: int, **options: Any) -> Plan:
    spec = job("hybrid", workers, options, training={"steps": 1, "global_batch": 256})
    plan = build_plan(spec, described("alexnet"))
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.parametrize(("workers", "mib"), [(2, 53.6), (4, 89.2), (8, 160.5)])
def test_alexnet_moves_what_table_2_says(workers: int, mib: float) -> None:
    """Papers 000, Table 2: 54, 89, 161 MiB; the cut is found."""
    model, plan = described("alexnet"), alexnet(workers, **DEDICATED)
    assert plan.edges[0].destination == "fc6"
    assert plan.edges[0].source == "conv5"
    convolutions = sum(x.parameter_bytes for x in model.layers if x.kind == "Conv2d")
    assert wire_bytes(plan, model, workers) == 2 * workers * convolutions + 2 * 256 * 9216 * 4
    assert round(wire_bytes(plan, model, workers) / MIB, 1) == mib


def test_beside_workers_a_share_stays_at_home() -> None:
    model, plan = described("alexnet"), alexnet(4)
    convolutions = sum(x.parameter_bytes for x in model.layers if x.kind == "Conv2d")
    assert wire_bytes(plan, model, 4) == 2 * 3 * convolutions + 2 * 192 * 9216 * 4
    received: Counter[int] = Counter()
    for transfer in declared(plan, model, 4):
        received[transfer.destination] += transfer.bytes * transfer.wire
    assert received[3] == 192 * 9216 * 4 + convolutions, "the device is beside the last worker"
    assert received[0] == 3 * convolutions + 64 * 9216 * 4, "the reducer beside the first"
    around = alexnet(4, reducer="ring")
    assert wire_bytes(around, model, 4) == 2 * 3 * convolutions + 2 * 192 * 9216 * 4


def test_the_device_keeps_up_with_the_workers() -> None:
    """With 16 workers, fc6 alone would take the device longer than a worker's convolutions take it."""
    assert alexnet(16).edges[0].destination == "fc7"
    assert alexnet(16, cut="fc6").edges[0].destination == "fc6"


def test_a_dedicated_device_comes_last() -> None:
    found = parties(alexnet(2, **DEDICATED), 2)
    assert [(p.name, p.rank, p.shard, p.device) for p in found] == [
        ("worker 0", 0, None, None),
        ("worker 1", 1, None, None),
        ("server 0", None, 0, None),
        ("device 0", None, None, 0),
    ]
    assert [p.device for p in parties(alexnet(2), 2)] == [None, 0]


def test_the_table_shows_where_layers_are_and_what_crosses() -> None:
    model, plan = described("alexnet"), alexnet(2)
    spec = job("hybrid", 2, training={"steps": 1, "global_batch": 256})
    table = rows(plan, model, spec)
    assert {r.layer: (r.placement, r.update) for r in table if r.layer in ("conv5", "fc6")} == {
        "conv5": ("replicated", "server"),
        "fc6": ("device", "device"),
    }
    assert {r.layer: r.wire_bytes for r in table if r.layer.startswith("fc")} == {
        "fc6": 2 * 128 * 9216 * 4,
        "fc7": 0,
        "fc8": 0,
    }
    assert sum(r.wire_bytes for r in table) == wire_bytes(plan, model, 2)
    assert "conv5 -> fc6: 36.0 KiB per sample, and as many back" in text(plan, model, spec)


def test_a_rehearsal_shrinks_what_crosses_by_the_same_factor() -> None:
    small = scaled_model(described("alexnet"), 4.0)
    place = small.cut("fc6")
    assert place is not None
    assert place.shape == (2304,)


def refusal(options: dict[str, Any], name: str = "cnn", **changes: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        build_plan(job("hybrid", 2, options, **changes), described(name))
    assert caught.value.remedy
    return caught.value


def test_a_cut_that_is_no_cut_is_refused() -> None:
    first = refusal({"cut": "0"})
    assert (first.field, first.value) == ("strategy.options.cut", "0")
    assert "no layer would be left in front of it" in first.rule
    assert "auto, or one of: 2, 6" in first.remedy
    assert "no such layer" in str(refusal({"cut": "fc6"}))
    assert "is used in front of it and from it on" in refusal({"cut": "decode"}, "tied").rule
    nowhere = refusal({}, "sometimes")
    assert "torch.fx cannot trace" in nowhere.rule
    assert nowhere.remedy == "Choose a strategy that replicates every layer"


def test_clipping_needs_one_home() -> None:
    clipped = refusal({}, training={"steps": 1, "clip_norm": 1.0})
    assert clipped.field == "training.clip_norm"
    assert "the device has some, the workers the others" in clipped.rule


def changed(**changes: Any) -> str:
    """The refusal of hybrid's plan for cnn with something changed by hand, perhaps of one `layer`."""
    spec = job("hybrid", 2)
    plan = build_plan(spec, described("cnn"))
    assert isinstance(plan, Plan)
    if at := changes.pop("layer", None):
        mine = {key: changes.pop(key) for key in ("placement", "place", "exchange") if key in changes}
        layers = tuple(replace(x, **mine) if x.layer == at else x for x in plan.layers)
        plan = replace(plan, layers=layers)
    with pytest.raises(UserError) as caught:
        resolve(replace(plan, **changes), described("cnn"), cluster_of(spec), spec)
    return str(caught.value)


def test_plans_by_hand_that_nobody_could_run() -> None:
    assert "layers.6.place = 1: there is no such device" in changed(layer="6", place=1)
    assert "devices = 1: this device computes no layer" in changed(devices=(DeviceParty(), DeviceParty()))
    assert "there are 2 workers" in changed(devices=(DeviceParty(beside=2),))
    assert "there is no such device: the plan lists 0" in changed(devices=())
    assert "nothing leads to the layers on a device" in changed(edges=())
    assert "its gradient is whole there" in changed(layer="6", exchange="ring-allreduce")
    assert "used in front of it. Use replicated" in changed(
        layer="2", placement="device", place=0, exchange="none"
    )
    unknown = made_up((4,), (6,))
    plan = Plan(
        strategy="by hand",
        layers=(LayerPlan(layer="l0"), LayerPlan(layer="l1", placement="device", place=0)),
        devices=(DeviceParty(),),
        edges=(Edge(source="l0", destination="l1"),),
    )
    spec = job("hybrid", 2)
    with pytest.raises(UserError, match="nothing is known of a cut in front of l1"):
        resolve(plan, unknown, cluster_of(spec), spec)
