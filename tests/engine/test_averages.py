"""Averaging without processes: what plans say and refuse, when workers average, and where outer steps lead."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.axes.exchange import EXCHANGE
from engine.axes.outer import OUTER
from engine.catalogue import Mechanism
from engine.consistency.average import Average
from engine.consistency.streaming import Streaming, StreamingSettings
from engine.errors import UserError
from engine.plan.averaging import check_layer_averages
from engine.plan.cluster import Cluster
from engine.plan.consistency import Consistency
from engine.plan.description import ModelDescription
from engine.plan.flow import derive
from engine.plan.job import JobSpec
from engine.plan.optimizers import OPTIMIZERS, SCALAR_STATE, state_of
from engine.plan.plan import LayerPlan, Plan
from engine.plan.rules import resolve
from engine.plan.serde import from_plain
from engine.plan.traffic import spread_over_period
from engine.plan.units import cut
from engine.plan.updates import OptimizerSpec
from engine.preview import text
from engine.simulate.declared import declared, wire_bytes
from engine.state.updates import build_optimizer
from engine.strategies import build_plan
from tests.plans import built, described, job, made_up, ring, trainable_bytes

ADAM = {"name": "adam", "learning_rate": 0.01}
MODEL = made_up((6, 4), (10,))


def planned(spec: JobSpec, model: ModelDescription | None = None) -> Plan:
    found = build_plan(spec, model or described("cnn"))
    assert isinstance(found, Plan)
    return found


def average(**settings: Any) -> Consistency:
    plain = {"strategy": "by hand", "layers": []}
    return from_plain(Plan, plain | {"consistency": {"mode": "average", "period": 4} | settings}).consistency


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"period": 0}, "period", r"must be at least 1 \(steps\)\. 1 averages after every step"),
    ({"period": None}, "period", "exactly one of period and period_epochs"),
    ({"period": 2**31}, "period", r"must be at most 2147483647 \(steps\)"),
    ({"period_epochs": 1.0}, "period", "exactly one of period and period_epochs"),
    ({"period": None, "period_epochs": -1.0}, "period_epochs", "must be greater than zero"),
    ({"mode": "every-step"}, "period", "no such field of Consistency. Known: mode"),
    ({"mode": "asynchronous"}, "period", "no such field of AsynchronousSettings. Known: mode"),
    ({"mode": "every-step", "period": None, "outer": "sgd"}, "outer", "no such field of Consistency"),
    ({"fragments": 2}, "fragments", "means nothing for average. Leave it out"),
    ({"outer_learning_rate": 0.7}, "outer_learning_rate", "means nothing without an outer optimizer"),
    ({"outer": "adam"}, "outer", "Known: nesterov, sgd"),
    ({"outer": "nesterov"}, "outer_momentum", "looks ahead along its momentum and has none. Use 0.9"),
    ({"outer": "sgd", "outer_momentum": 1.0}, "outer_momentum", "from 0 to below 1"),
    ({"outer": "sgd", "outer_learning_rate": 0.0}, "outer_learning_rate", "must be greater than zero"),
    ({"outer": "sgd", "outer_learning_rate": 1e308}, "outer_learning_rate", "at most 10"),
    ({"warm_up_steps": 5}, "warm_up_steps", "nothing to warm up to"),
    ({"warm_up_steps": -1, "learning_rate_rule": "linear"}, "warm_up_steps", "must not be negative"),
    ({"warm_up_steps": 10**400, "learning_rate_rule": "linear"}, "warm_up_steps", "must be at most"),
]


@pytest.mark.parametrize(("settings", "field", "message"), BAD)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        average(**settings)
    assert caught.value.field == f"consistency.{field}"


@pytest.mark.parametrize(
    ("strategy", "options", "changes", "field", "message"),
    [
        ("parameter-averaging", {"period": 0}, {}, "strategy.options.period", "at least 1"),
        ("diloco", {"outer": "lion"}, {}, "strategy.options.outer", "Known: nesterov, sgd"),
        ("model-average", {"learning_rate_rule": "constant", "warm_up_steps": 1}, {},
         "strategy.options.warm_up_steps", "nothing to warm up to"),
        ("parameter-averaging", {"period_epochs": 0.5}, {}, "strategy.options.period_epochs",
         "an epoch has no length. Give the period in steps"),
        ("model-average", {"update": "server"}, {}, "layers.0.update", "the optimizer runs on the workers"),
        ("parameter-averaging", {"codec": "fp16", "optimizer_state": True}, {"optimizer": ADAM},
         "layers.0.codec", "small second moments would vanish"),
        ("parameter-averaging", {"optimizer_state": True}, {"optimizer": {"name": "muon"}},
         "strategy.options.optimizer_state", "cannot be averaged"),
        ("parameter-server", {"servers": 2**62}, {}, "strategy.options.servers", "cannot be run. Use fewer"),
    ],
)  # fmt: skip
def test_what_a_plan_refuses_is_told_at_the_option(
    strategy: str, options: dict[str, Any], changes: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        planned(job(strategy, 2, options, **changes))
    assert caught.value.field == field


def test_an_exchange_must_sum_whatever_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """As factors do not; here a ring that has lost the trait."""
    found = EXCHANGE["ring-allreduce"]
    lame = Mechanism(name=found.name, summary=found.summary, implementation=found.implementation)
    kept = tuple(lame if m.name == found.name else m for m in EXCHANGE)
    monkeypatch.setattr("engine.plan.averaging.EXCHANGE", replace(EXCHANGE, mechanisms=kept))
    plan = Plan(strategy="by hand", layers=(ring("l0"), ring("l1")), consistency=average())
    with pytest.raises(UserError, match=r"cannot carry what several steps.*Use one of: central-reducer"):
        resolve(plan, MODEL, Cluster(workers=2), job(workers=2))


def test_epochs_become_steps_and_stay_when_workers_resolve_again() -> None:
    model = replace(MODEL, samples=100)
    spec = job("parameter-averaging", 2, {"period_epochs": 2.5}, training={"steps": 30, "global_batch": 32})
    plan = planned(spec, model)
    assert (plan.consistency.period, plan.consistency.period_epochs) == (10, None), "4 steps in an epoch"
    assert resolve(plan, model, Cluster(workers=2), spec) == plan
    endless = planned(job("parameter-averaging", 2, {"period_epochs": 1e300}), model)
    for epochs in (1e300, 1e308):
        endless = planned(job("parameter-averaging", 2, {"period_epochs": epochs}), model)
        assert endless.consistency.period == 2**31 - 1, "an average at the job's end"


def test_warnings_say_what_has_no_effect() -> None:
    spec = job(
        "diloco", 2, {"optimizer_state": True}, training={"steps": 20, "global_batch": 32, "clip_norm": 1.0}
    )
    first, second, third = planned(spec).warnings
    assert first == "optimizer_state has no effect: sgd with these options keeps nothing to average."
    assert "period of 500 steps is longer than the job, which has 20" in second
    assert "each worker's own gradients" in third


def test_state_travels_with_its_parameters_and_is_declared() -> None:
    """Adam: twice the parameters, and a count for each tensor; plain: the ring's bytes, once in a period."""
    model, size = described("cnn"), trainable_bytes(described("cnn"))
    tensors = sum(p.trainable for p in model.parameters)
    alone = planned(job("parameter-averaging", 3, {"period": 7}))
    assert wire_bytes(alone, model, 3) == 4 * size
    assert spread_over_period(alone, 4 * size) == round(4 * size / 7)
    of_jobs = [sum(t.bytes for t in declared(alone, model, 3, steps=steps)) for steps in (1, 7, 8, 70)]
    assert of_jobs == [4 * size, 4 * size, 2 * 4 * size, 10 * 4 * size]
    assert "on the wire per average, every 7 steps" in text(alone, model, job(workers=3))
    adam = planned(job("parameter-averaging", 3, {"period": 7, "optimizer_state": True}, optimizer=ADAM))
    assert adam.consistency.state == ("exp_avg", "exp_avg_sq", "step")
    assert wire_bytes(adam, model, 3) == 4 * (3 * size + 4 * tensors)
    assert derive(adam.layers[0], job(workers=3), adam.consistency).payload == "delta"
    counts = Counter(s.parameter for unit in cut(adam, model) for s in unit.segments)
    assert len(counts) == 4 * tensors


@pytest.mark.parametrize("where", ["groups", "one-cycle"])
def test_momentum_of_a_group_or_a_schedule_counts(where: str) -> None:
    groups = [{"match": "*.bias", "options": {"momentum": 0.9}}]
    changes: dict[str, Any] = (
        {"optimizer": {"name": "sgd", "groups": groups}}
        if where == "groups"
        else {"schedule": {"name": "one-cycle"}}
    )
    plan = planned(job("model-average", 2, {"optimizer_state": True}, **changes))
    assert plan.consistency.state == ("momentum_buffer",)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if state_of(name, {}) is not None])
def test_the_listed_state_is_what_torch_keeps(name: str) -> None:
    options: dict[str, Any] = {}
    if name in ("sgd", "rmsprop"):
        options["momentum"] = 0.9
    if name == "rmsprop":
        options["centered"] = True
    if name in ("adam", "adamw"):
        options["amsgrad"] = True
    parameter = torch.nn.Parameter(torch.ones(3, 2))
    optimizer = build_optimizer(OptimizerSpec(name=name, options=options), [("p", parameter)])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    kept = optimizer.state[parameter]
    listed = state_of(name, options)
    assert listed is not None
    assert set(kept) == set(listed)
    for slot, value in kept.items():
        assert value.shape == (() if slot in SCALAR_STATE else (3, 2))
        assert value.dtype == torch.float32


def test_workers_average_at_the_end_of_each_period_and_of_the_job() -> None:
    found = Average(average(), workers=3, total_steps=10)
    assert [step for step in range(-1, 10) if found.leaves(0, step)] == [-1, 3, 7, 9]


def test_fragments_leave_in_turn_and_arrive_later_but_for_the_last() -> None:
    """Three fragments over a period of 6 begin 2 steps apart; what would arrive no sooner than the end is left out."""
    found = Streaming(
        StreamingSettings(period=6, fragments=3, delay=2, mixing=0.5), workers=3, total_steps=16
    )
    left = {f: [step for step in range(-1, 16) if found.leaves(f, step)] for f in range(3)}
    assert left == {0: [5, 11, 15], 1: [3, 9, 15], 2: [1, 7, 15]}
    arrived = {
        f: {step: at for step in range(-1, 16) if (at := found.arrives(f, step)) is not None}
        for f in range(3)
    }
    assert arrived == {0: {7: 5, 13: 11, 15: 15}, 1: {5: 3, 11: 9, 15: 15}, 2: {3: 1, 9: 7, 15: 15}}
    assert [found.mixing(step) for step in (3, 15)] == [0.5, 0.0]
    assert not found.holds_common(0, 7), "a worker keeps a part of its own"
    assert found.holds_common(0, 15)


@pytest.mark.parametrize(
    ("settings", "field", "rule"),
    [
        ({"fragments": 0}, "fragments", "must be at least 1"),
        ({"fragments": 2**31}, "fragments", "at most 2147483647 (parts of the model)"),
        ({"delay": -1}, "delay", "must be at least 0"),
        ({"mixing": 1.0}, "mixing", "must be from 0 to below 1"),
        ({"mixing": -0.5}, "mixing", "must be from 0 to below 1"),
        ({"delay": 10}, "strategy.options.delay = 10", "less than the period, which is 10 steps"),
        ({"optimizer_state": True}, "optimizer_state", "changes while a fragment's average is under way"),
        ({"exchange": "native", "delay": 0}, "exchange", "fragments are averaged in turn"),
    ],
)
def test_what_cannot_be_averaged_in_turn_is_refused(settings: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(UserError, match=re.escape(rule)) as caught:
        planned(job("streaming-diloco", 2, {"period": 10, **settings}))
    assert field in str(caught.value)


def test_a_fragment_belongs_to_streaming_and_must_exist() -> None:
    layer = replace(ring("l0"), fragment=2)
    for consistency, rule in (
        (Consistency(), "means nothing for every-step"),
        (StreamingSettings(period=4, fragments=2), "there are 2 fragments, numbered from 0"),
    ):
        with pytest.raises(UserError, match=rule):
            check_layer_averages(layer, Plan(strategy="by hand", layers=(layer,), consistency=consistency))


def test_an_override_says_with_which_fragment_a_layer_is_averaged() -> None:
    wanted = [{"layers": "*", "fragment": 0}, {"kind": "linear", "fragment": 1}]
    spec = job("streaming-diloco", 2, {"fragments": 2}, overrides=wanted)
    kinds = {layer.name: layer.kind for layer in described("cnn").layers}
    found = {kinds[layer.layer]: layer.fragment for layer in planned(spec).layers}
    assert found["Linear"] == 1
    assert {fragment for kind, fragment in found.items() if kind != "Linear"} == {0}


@pytest.mark.parametrize(
    ("strategy", "fragment", "message"),
    [
        ("streaming-diloco", 2, "fragment.*there are 2 fragments, numbered from 0"),
        ("streaming-diloco", -1, "overrides.0.fragment.*must not be negative"),
        ("p3", 1, "fragment.*means nothing for every-step"),
    ],
)
def test_a_fragment_that_cannot_be_is_refused(strategy: str, fragment: int, message: str) -> None:
    options = {"fragments": 2} if strategy == "streaming-diloco" else {}
    with pytest.raises(UserError, match=message):
        planned(job(strategy, 2, options, overrides=[{"layers": "*", "fragment": fragment}]))


def test_no_bucket_holds_layers_of_two_fragments() -> None:
    plan = planned(job("streaming-diloco", 2, {"fragments": 2, "bucket_bytes": 10**9}))
    fragment = {layer.layer: layer.fragment for layer in plan.layers}
    units = cut(plan, described("cnn"))
    assert [{fragment[name] for name in unit.layers} for unit in units] == [{0}, {1}]


def test_the_linear_rule_grows_to_the_number_of_workers() -> None:
    def factors(**settings: Any) -> list[float]:
        found = Average(average(**settings), workers=3, total_steps=10)
        return [found.rate_factor(step) for step in range(6)]

    assert factors() == factors(learning_rate_rule="constant") == [1.0] * 6
    assert factors(learning_rate_rule="linear") == [3.0] * 6
    assert factors(learning_rate_rule="linear", warm_up_steps=4) == [1.0, 1.5, 2.0, 2.5, 3.0, 3.0]


@pytest.mark.parametrize("mechanism", [*OUTER], ids=lambda mechanism: mechanism.name)
def test_outer_optimizers_reach_the_known_optimum(mechanism: Mechanism) -> None:
    """Workers pull towards points of their own with equal force; the optimum is the points' weighted mean."""
    assert mechanism.load().__doc__
    points, shares = torch.tensor([[1.0, -2.0], [5.0, 0.5]]).double(), (0.75, 0.25)
    optimum = sum(share * point for share, point in zip(shares, points, strict=True))
    outer = Average(
        average(outer=mechanism.name, outer_learning_rate=0.7, outer_momentum=0.5), workers=2, total_steps=1
    ).outer()
    common = torch.zeros(2).double()
    for _ in range(80):
        ends = []
        for point in points:
            local = common.clone()
            for _ in range(4):
                local -= 0.2 * (local - point)
            ends.append(local)
        delta = sum(share * (end - common) for share, end in zip(shares, ends, strict=True))
        outer.step("w", common, delta)
    assert torch.allclose(common, optimum, rtol=0, atol=1e-9)


def test_one_worker_needs_no_exchange_to_average() -> None:
    plan = Plan(
        strategy="by hand", layers=(LayerPlan(layer="l0"), LayerPlan(layer="l1")), consistency=average()
    )
    assert resolve(plan, MODEL, Cluster(workers=1), job())
    assert isinstance(built("diloco", "cnn", 1), Plan)


def test_a_worker_alone_needs_the_whole_model() -> None:
    plan = Plan(
        strategy="by hand",
        layers=(ring("l0"), LayerPlan(layer="l1", placement="device", place=0)),
        consistency=average(),
    )
    with pytest.raises(UserError, match=r"needs the whole model. Use replicated") as caught:
        check_layer_averages(plan.layers[1], plan)
    assert caught.value.field == "layers.l1.placement"
