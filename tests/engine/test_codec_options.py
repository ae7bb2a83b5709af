"""A codec's options: part of the plan and of overrides, checked where they are given, and read as they were stored."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from engine.axes.codec import CODEC
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.encoding import encoding
from engine.plan.plan import LayerPlan, Plan
from engine.plan.serde import from_plain, only_set, to_plain
from engine.preview import notes, rows
from engine.simulate.declared import wire_bytes, wire_bytes_by_layer
from engine.strategies import build_plan
from tests.plans import job, made_up

MODEL = made_up((1000,), (600,))


def plan(*overrides: dict[str, Any], strategy: str = "ring-allreduce", **options: Any) -> Plan:
    found = build_plan(job(strategy, 2, options, overrides=list(overrides)), MODEL)
    assert isinstance(found, Plan)
    return found


def chosen(found: Plan) -> list[tuple[str, dict[str, Any]]]:
    return [(layer.codec, layer.codec_options) for layer in found.layers]


@pytest.mark.parametrize("name", CODEC.names)
def test_a_codecs_options_have_defaults_and_words(name: str) -> None:
    kind = CODEC[name].options
    made = kind()
    assert kind.__doc__
    for each in TypeAdapter(kind).json_schema().get("properties", {}).values():
        assert each["description"]
    if CODEC[name].available:
        assert encoding(name).options == made
        assert encoding(name).text == name


@pytest.mark.parametrize(
    "strategy", ["ring-allreduce", "parameter-server", "p3", "async-sgd", "late-multiply", "diloco"]
)
def test_a_strategy_hands_them_on(strategy: str) -> None:
    found = plan(strategy=strategy, codec="int8", codec_options={"block": 64})
    assert chosen(found) == [("int8", {"block": 64})] * 2
    assert chosen(plan(strategy=strategy, codec="int8")) == [("int8", {"block": 256})] * 2


def test_they_count_in_bytes_and_keep_buckets_apart() -> None:
    fine = plan(codec="int8", codec_options={"block": 50}, bucket_bytes=10_000)
    coarse = plan(codec="int8", codec_options={"block": 800}, bucket_bytes=10_000)
    # Of each of two workers two messages of 800 elements each.
    assert wire_bytes(fine, MODEL, 2) == 4 * (800 + 4 * 16)
    assert wire_bytes(coarse, MODEL, 2) == 4 * (800 + 4 * 1)
    mixed = plan({"layers": "l1", "codec_options": {"block": 50}}, codec="int8", bucket_bytes=10_000)
    assert [row.units for row in rows(mixed, MODEL, job("ring-allreduce", 2))] == [1, 1]
    assert wire_bytes(mixed, MODEL, 2) == 4 * (500 + 4 * 2) + 4 * (300 + 4 * 6)


@pytest.mark.parametrize(
    ("strategy", "options", "back"),
    [
        ("parameter-server", {"codec": "powersgd", "servers": 1}, 4 * 2 * 70),
        ("tree-allreduce", {"codec": "powersgd", "bucket_bytes": 4800}, 4 * 2 * 70),
        ("parameter-server", {"codec": "powersgd", "servers": 1, "update": "server"}, 4 * 1200 + 12),
    ],
)
def test_bytes_of_factors_follow_from_shapes(strategy: str, options: dict[str, Any], back: int) -> None:
    """Of two layers of 1200 elements each: 30 x 40 has factors of 2 x 70 numbers, 3 x 400 has none that pay. A message
    that stands by itself says in 12 bytes what it is of; of what is summed in phases that is known."""
    layers = [
        replace(layer, parameters=(replace(layer.parameters[0], shape=shape),))
        for layer, shape in zip(made_up((1200,), (1200,)).layers, [(30, 40), (3, 400)], strict=True)
    ]
    model = ModelDescription(name="two shapes", layers=tuple(layers))
    found = build_plan(job(strategy, 2, options), model)
    factors, whole = 4 * 2 * 70, 4 * 1200
    # Up and down the tree; to the shard beside the other worker, and back.
    assert wire_bytes_by_layer(found, model, 2) == {"l0": factors + back, "l1": 2 * whole}


def test_overrides_change_them_layer_by_layer() -> None:
    found = plan(
        {"layers": "l0", "codec_options": {"block": 64}},
        {"layers": "l1", "codec": "one-bit"},
        codec="int8",
        codec_options={"block": 128},
    )
    assert chosen(found) == [("int8", {"block": 64}), ("one-bit", {"block": 512})]
    again = plan(
        {"codec": "int8"}, {"codec": "int4"}, {"codec_options": {}}, codec="int8", codec_options={"block": 32}
    )
    assert chosen(again) == [("int4", {"block": 256})] * 2
    same = plan({"codec": "int8"}, codec="int8", codec_options={"block": 32})
    assert chosen(same) == [("int8", {"block": 32})] * 2, "what is left out stays as it was"


def test_entropy_coding_is_chosen_layer_by_layer_and_ends_where_there_are_no_places() -> None:
    found = plan(
        {"layers": "l0", "codec": "fp16"}, {"layers": "l1", "codec": "dgc"},
        strategy="p3", codec="top-k", entropy_coding=True,
    )  # fmt: skip
    assert [(layer.codec, layer.entropy_coding) for layer in found.layers] == [("fp16", False), ("dgc", True)]
    (_, last) = plan({"layers": "l1", "entropy_coding": True}, codec="top-k").layers
    assert last.entropy_coding
    assert last.encoding.text == "top-k, entropy-coded"
    with pytest.raises(UserError, match="fp32 says something of every element") as caught:
        plan(entropy_coding=True)
    assert caught.value.field == "strategy.options.entropy_coding"


def test_people_see_what_differs_from_the_defaults() -> None:
    override = {"layers": "l0", "codec": "int8", "codec_options": {"block": 64}}
    spec = job("ring-allreduce", 2, {"codec": "int8"}, overrides=[override])
    found = build_plan(spec, MODEL)
    assert [row.codec for row in rows(found, MODEL, spec)] == ["int8, block 64", "int8"]
    assert notes(found, MODEL, spec)[-1] == (
        "overrides.0: layers named l0 [l0]: codec int8, codec_options block 64"
    )


NO_OPTIONS = "fp16 has no options. Leave it out"
REFUSED: list[tuple[list[dict[str, Any]], dict[str, Any], str, str]] = [
    ([], {"codec": "int8", "codec_options": {"block": 7}}, "strategy.options.codec_options.block", "at least 8"),
    ([], {"codec": "int8", "codec_options": {"block": 2**21}}, "strategy.options.codec_options.block", "at most"),
    ([], {"codec": "int8", "codec_options": {"block": "x"}}, "strategy.options.codec_options.block", "whole number"),
    ([], {"codec": "int8", "codec_options": {"blok": 64}}, "strategy.options.codec_options.blok", "mean 'block'"),
    ([], {"codec": "fp16", "codec_options": {"block": 64}}, "strategy.options.codec_options.block", NO_OPTIONS),
    ([{"codec": "int8", "codec_options": {"block": 0}}], {}, "overrides.0.codec_options.block", "at least 8"),
    ([{"codec_options": {"block": 64}}], {"codec": "fp16"}, "overrides.0.codec_options.block", NO_OPTIONS),
    ([{"codec": "fp16"}, {"codec_options": {"block": 64}}], {"codec": "int8"}, "overrides.1.codec_options.block",
     NO_OPTIONS),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "options", "field", "message"), REFUSED)
def test_what_a_codec_does_not_have_is_refused_where_it_is_given(
    overrides: list[dict[str, Any]], options: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        plan(*overrides, **options)
    assert caught.value.field == field
    assert caught.value.remedy


def test_a_plan_that_was_stored_without_them_is_read_as_it_was() -> None:
    stored = {"strategy": "by hand", "layers": [{"layer": "a", "codec": "one-bit"}, {"layer": "b"}]}
    found = from_plain(Plan, stored)
    assert chosen(found) == [("one-bit", {"block": 512}), ("fp32", {})]
    assert found == Plan(
        strategy="by hand", layers=(LayerPlan(layer="a", codec="one-bit"), LayerPlan(layer="b"))
    )


@pytest.mark.parametrize("name", [m.name for m in CODEC if m.available])
def test_a_layers_plan_survives(name: str) -> None:
    layer = LayerPlan(layer="a", codec=name)
    assert from_plain(LayerPlan, to_plain(layer)) == from_plain(LayerPlan, only_set(layer)) == layer
    assert TypeAdapter(LayerPlan).validate_python(to_plain(layer)) == layer
    assert set(layer.codec_options) == {each.name for each in fields(CODEC[name].options)}
