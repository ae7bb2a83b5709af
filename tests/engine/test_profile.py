"""Profiles by arithmetic, and what is refused; scaling, the pure function behind a rehearsal's sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UnknownNameError, UserError
from engine.launch import Launch, prepare, write_json
from engine.plan.description import Factors, LayerDescription, ModelDescription, ParameterDescription
from engine.plan.devices import DEVICES
from engine.plan.plan import Plan, Wrapper
from engine.plan.scaling import scaled_model, scaled_plan, scaled_rate
from engine.plan.serde import from_plain, to_plain
from engine.plan.units import cut
from engine.profile import Profile, derive, profile_of
from tests.jobs import describe, job, plan_of


def layer(index: int, name: str, count: int, flops: int, output_bytes: int) -> LayerDescription:
    weight = ParameterDescription(name=f"{name}.weight", shape=(count,), dtype="float32")
    return LayerDescription(
        name=name,
        kind="Linear",
        index=index,
        parameters=(weight,),
        forward_flops=flops,
        output_bytes=output_bytes,
    )


MODEL = ModelDescription(
    name="two",
    layers=(
        layer(0, "computes", 1_000, 5_300_000_000, 100),
        layer(1, "moves", 24_300_000, 1_000, 243_000),
        layer(2, "computes_too", 1_000, 5_300_000_000, 100),
    ),
)


def test_times_follow_from_flops_and_bytes() -> None:
    found = derive(MODEL, "p4000", 0.5, batch=10)
    first, moves, last = found.layers
    assert first.forward_s == pytest.approx(5.3e9 / (5.3e12 * 0.5))
    assert first.backward_s == first.forward_s, "nobody needs the gradient of the data"
    assert moves.forward_s == pytest.approx((243_000 + 97_200_000 / 10) / 243e9), (
        "parameters are read once a pass"
    )
    assert moves.backward_s == 2 * moves.forward_s
    assert (last.forward_s, last.backward_s) == (first.forward_s, 2 * first.forward_s)
    assert found.forward_s == pytest.approx(sum(each.forward_s for each in found.layers))
    assert (found.source, found.device, found.efficiency, found.batch) == ("derived", "P4000", 0.5, 10)


def test_twice_the_efficiency_is_half_the_computing() -> None:
    slow, fast = derive(MODEL, "v100", 0.3).layers[0], derive(MODEL, "v100", 0.6).layers[0]
    assert slow.forward_s == pytest.approx(2 * fast.forward_s)


def test_every_device_says_what_it_is_and_who_says_so() -> None:
    assert [entry.name for entry in DEVICES] == ["k40m", "m40", "p4000", "p100", "v100", "a100", "h100"]
    rates = [entry.flops for entry in DEVICES if entry.name not in ("p4000",)]
    assert rates == sorted(rates), "each generation is faster"
    assert all("NVIDIA" in entry.source for entry in DEVICES)


def test_profiles_survive_their_file(tmp_path: Path) -> None:
    found = derive(MODEL, "h100", 1.0)
    assert from_plain(Profile, to_plain(found)) == found


REHEARSED = {"fidelity": "rehearse", "strategy": {"name": "p3"}, "cluster": {"workers": 2}}


@pytest.mark.parametrize(
    ("rehearsal", "field", "message"),
    [
        ({"device": "p400"}, "rehearsal.device", "Did you mean 'p4000'? Known: a100, h100, k40m"),
        ({"efficiency": 0}, "rehearsal.efficiency", "is a share from 0 to 1"),
        ({"efficiency": 1.5}, "rehearsal.efficiency", "60 % is 0.6"),
        ({"scale": 0.5}, "rehearsal.scale", "must be at least 1"),
        ({"scale": float("nan")}, "rehearsal.scale", "must be at least 1"),
        ({"speed": 2}, "rehearsal.speed", "no such field of RehearsalSpec"),
    ],
)
def test_rehearsals_are_refused_at_their_field(rehearsal: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        job(**REHEARSED, rehearsal=rehearsal)
    assert caught.value.field == field
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cluster": {"workers": 2, "device": "cuda"}}, "cluster.device"),
        ({"training": {"target_accuracy": 0.9}}, "training.target_accuracy"),
    ],
)
def test_what_a_rehearsal_cannot_give_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as caught:
        job(**{**REHEARSED, **changes})
    assert caught.value.field == field


def test_rehearsals_wear_their_label() -> None:
    spec = job(**REHEARSED, rehearsal={"device": "m40", "efficiency": 0.45, "scale": 15})
    assert spec.rehearsed == "rehearsed: compute of M40 derived from FLOPs at 45 %, sizes and rates 1/15"
    assert job(**REHEARSED).rehearsed == "rehearsed: compute of P4000 derived from FLOPs at 60 %"
    trained = job(rehearsal={"scale": 15})
    assert (trained.rehearsed, trained.scale) == (None, 1.0)


def test_the_profile_must_be_one_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    spec = job(**REHEARSED, rehearsal={"profile": str(path)})
    with pytest.raises(UserError, match=r"rehearsal\.profile = .*cannot be read"):
        plan_of(spec)
    write_json(path, {"model": "cnn"})
    with pytest.raises(UserError, match=r"rehearsal\.profile = .*is required"):
        plan_of(spec)
    write_json(path, to_plain(derive(MODEL, "p100", 0.6)))
    with pytest.raises(UserError, match=r"rehearsal\.profile = .*differ in their layers \(0, 2, 6, computes"):
        plan_of(spec)
    model = describe(spec)
    mine = derive(model, "p100", 0.6)
    write_json(path, to_plain(replace(mine, checksum=MODEL.checksum)))
    with pytest.raises(UserError, match=r"rehearsal\.profile = .*made for other parameters"):
        plan_of(spec)
    write_json(path, to_plain(mine))
    plan_of(spec)
    assert profile_of(spec, model) == mine
    samples = spec.pass_samples(spec.cluster.workers)
    write_json(path, to_plain(replace(mine, source="measured", batch=2 * samples)))
    plan_of(spec)
    write_json(path, to_plain(replace(mine, source="measured", batch=2 * samples + 1)))
    with pytest.raises(UserError, match=rf"rehearsal\.profile = .*trainyard profile --batch {samples}`"):
        plan_of(spec)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_times_are_durations(seconds: float) -> None:
    plain = to_plain(derive(MODEL, "p100", 0.6))
    plain["layers"][1]["backward_s"] = seconds
    with pytest.raises(UserError, match=r"layers\.1\.backward_s = .*no duration"):
        from_plain(Profile, plain)


def test_nothing_changes_at_scale_1() -> None:
    spec = job(strategy={"name": "p3"}, cluster={"workers": 2})
    model, plan = describe(spec), plan_of(spec)
    assert scaled_model(model, 1.0) is model
    assert scaled_plan(plan, 1.0) is plan


def test_everything_shrinks_by_the_one_factor() -> None:
    spec = job(strategy={"name": "p3", "options": {"slice_size": 100}}, cluster={"workers": 2})
    model, plan = describe(spec), plan_of(spec)
    small, cut_up = scaled_model(model, 7.0), scaled_plan(plan, 7.0)
    assert [p.name for p in small.parameters] == [p.name for p in model.parameters]
    assert [p.shape for p in small.parameters] == [(max(1, round(p.count / 7)),) for p in model.parameters]
    assert [each.forward_flops for each in small.layers] == [each.forward_flops for each in model.layers]
    last, shrunk = model.layers[-1].factors, small.layers[-1].factors
    assert last is not None
    assert shrunk == Factors(rows=1, inputs=round(last.inputs / 7), outputs=round(last.outputs / 7))
    assert isinstance(plan, Plan)
    assert isinstance(cut_up, Plan)
    assert {each.order.size for each in cut_up.layers} == {15}  # 100 / 7 = 14.3
    ours, theirs = len(cut(cut_up, small)), len(cut(plan, model))
    assert 0.95 * theirs < ours <= theirs, "sizes are rounded up: 15 for 14.3 elements"
    assert scaled_rate(4_500_000_000, 15) == 300_000_000


def test_thresholds_and_buckets_shrink_too() -> None:
    servers = job(
        strategy={"name": "parameter-server", "options": {"split_over": 1000}}, cluster={"workers": 2}
    )
    plan = scaled_plan(plan_of(servers), 8.0)
    assert isinstance(plan, Plan)
    assert plan.servers.split_over == 125
    rings = job(
        strategy={"name": "ring-allreduce", "options": {"bucket_bytes": 4000}}, cluster={"workers": 2}
    )
    plan = scaled_plan(plan_of(rings), 8.0)
    assert {each.order for each in plan.layers} == {
        replace(each.order, size=-(-(each.order.size or 0) // 8)) for each in plan_of(rings).layers
    }
    assert scaled_plan(Wrapper(strategy="ddp", runner="ddp", bucket_bytes=5), 8.0) == Wrapper(
        strategy="ddp", runner="ddp", bucket_bytes=1
    )


def test_launches_of_rehearsals_are_made_in_one_place(tmp_path: Path) -> None:
    spec = job(**REHEARSED, rehearsal={"scale": 4})
    launch = prepare(spec, plan_of(spec), describe(spec), tmp_path)
    assert launch.devices == ("replay", "replay")
    assert launch.model == scaled_model(describe(spec), 4)
    launch.write()
    assert Launch.read(tmp_path) == launch
    with pytest.raises(ValueError, match="make launches with `prepare`"):
        replace(launch, profile=None)
    with pytest.raises(UnknownNameError):
        derive(describe(spec), "abacus", 0.5)
