"""Answers by a codec: part of the plan and of overrides, counted in its bytes, and refused where nothing answers so."""

from __future__ import annotations

from typing import Any

import pytest

from engine.axes.codec import CODEC
from engine.errors import UserError
from engine.plan.plan import LayerPlan, Plan
from engine.plan.serde import from_plain, to_plain
from engine.preview import rows, text
from engine.simulate.declared import wire_bytes
from engine.strategies import build_plan
from tests.plans import job, made_up

MODEL = made_up((1000,), (600,))
DRIFTING = ["async-sgd", "staleness-aware", "softsync", "bounded-staleness"]
SERVED = ["parameter-server", "parameter-server-deferred", "parameter-slicing", "p3"]


def plan(
    *overrides: dict[str, Any], strategy: str = "parameter-server", training: Any = None, **options: Any
) -> Plan:
    changes = {} if training is None else {"training": training}
    found = build_plan(job(strategy, 2, options, overrides=list(overrides), **changes), MODEL)
    assert isinstance(found, Plan)
    return found


def chosen(found: Plan) -> list[tuple[str, dict[str, Any]]]:
    return [(layer.answers, layer.answer_options) for layer in found.layers]


@pytest.mark.parametrize("strategy", [*SERVED, "central-reduce", *DRIFTING])
def test_a_strategy_hands_them_on(strategy: str) -> None:
    assert chosen(plan(strategy=strategy, codec="int8")) == [("fp32", {})] * 2
    found = plan(strategy=strategy, answers="int8", answer_options={"block": 64})
    assert chosen(found) == [("int8", {"block": 64})] * 2
    assert from_plain(LayerPlan, to_plain(found.layers[0])) == found.layers[0]


@pytest.mark.parametrize("strategy", SERVED)
def test_they_count_in_bytes_the_one_way(strategy: str) -> None:
    """Each of two workers sends, and gets, all elements."""
    moves = 1600
    fixed: dict[str, Any] = {"strategy": strategy, "where": "dedicated", "servers": 1}
    assert wire_bytes(plan(**fixed, answers="fp16"), MODEL, 2) == 2 * moves * (4 + 2)
    blocks = sum(-(-count // 50) for count in (1000, 600))
    found = plan(**fixed, codec="fp16", answers="int8", answer_options={"block": 50})
    assert wire_bytes(found, MODEL, 2) == 2 * (moves * (2 + 1) + 4 * blocks)


def test_an_override_changes_them_layer_by_layer() -> None:
    found = plan({"layers": "l0", "answers": "top-k", "answer_options": {"ratio": 0.1}}, answers="bf16")
    assert [answers for answers, _ in chosen(found)] == ["top-k", "bf16"]
    assert found.layers[0].answer_options["ratio"] == 0.1
    again = plan({"answer_options": {"block": 64}}, {"answers": "fp8"}, answers="int8")
    assert chosen(again) == [("fp8", {"block": 256})] * 2, "another codec begins with its own defaults"


def test_without_a_server_there_are_none() -> None:
    found = plan({"layers": "l1", "exchange": "ring-allreduce"}, answers="int8")
    assert [answers for answers, _ in chosen(found)] == ["int8", "fp32"]


def test_the_table_shows_them() -> None:
    spec = job("p3", 2, {"codec": "int8", "answers": "threshold"})
    found = build_plan(spec, MODEL)
    assert [row.codec for row in rows(found, MODEL, spec)] == ["int8; answers threshold"] * 2
    assert not any(row.wire_exact for row in rows(found, MODEL, spec))
    assert "at most" in text(found, MODEL, spec)


@pytest.mark.parametrize(
    ("strategy", "options", "training", "because"),
    [
        ("parameter-server", {"update": "worker"}, None, "a server that does not update answers with sums"),
        ("p3", {}, {"steps": 1, "clip_norm": 1.0}, "a server that does not update answers with sums"),
        ("model-average", {}, None, "workers that average get an average"),
    ],
)
def test_they_are_about_updated_parameters(
    strategy: str, options: dict[str, Any], training: Any, because: str
) -> None:
    with pytest.raises(UserError, match=f"answers = 'int8': .*{because}.*Leave it out"):
        plan(strategy=strategy, answers="int8", training=training, **options)


def test_a_ring_has_no_server_to_answer() -> None:
    with pytest.raises(UserError, match=r"answers = 'int8': .*ring-allreduce has no server to answer"):
        plan({"answers": "int8"}, strategy="ring-allreduce")


def test_who_goes_on_without_its_own_writes_keeps_only_the_last_answer() -> None:
    with pytest.raises(
        UserError, match=r"answers = 'fp16': .*differences are to be added one by one.*own_writes out"
    ):
        plan(strategy="async-sgd", answers="fp16", own_writes=False)


@pytest.mark.parametrize("codec", [m.name for m in CODEC if m.traits & {"own", "random", "votes"}])
def test_what_may_be_far_from_a_difference_is_no_answer(codec: str) -> None:
    with pytest.raises(UserError, match=rf"answers = '{codec}': .*Use one of fp32, fp16.*top-k"):
        plan(answers=codec)


def test_whether_it_may_be_far_depends_on_its_options() -> None:
    assert chosen(plan(answers="random-k"))[0][0] == "random-k"
    with pytest.raises(UserError, match=r"answers = 'random-k': what it draws at random may be farther"):
        plan(answers="random-k", answer_options={"unbiased": True})


@pytest.mark.parametrize("codec", [m.name for m in CODEC if "by-value" in m.traits])
def test_what_depends_on_values_cannot_be_rehearsed(codec: str) -> None:
    spec = job("p3", 2, {"answers": codec}, fidelity="rehearse", rehearsal={"device": "p100"})
    with pytest.raises(UserError, match=r"answers = .*a rehearsal's gradients are made up"):
        build_plan(spec, MODEL)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"answers": "int9"}, "strategy.options.answers"),
        ({"answers": "int8", "answer_options": {"block": 7}}, "strategy.options.answer_options.block"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as caught:
        plan(**given)
    assert caught.value.field == field
