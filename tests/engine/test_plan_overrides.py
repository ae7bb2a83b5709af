"""Overrides: which layers they mean, what these get, what a job cannot mix, and what people are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.services.catalogue import job_schema
from engine.errors import UserError
from engine.launch import prepare
from engine.order.keys import rank_in_step
from engine.plan.compose import MOST_OVERRIDES
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.overrides import VALUES, Override, matching
from engine.plan.plan import LayerPlan, Order, Plan, Servers
from engine.plan.serde import from_plain, to_plain
from engine.preview import notes, rows, text
from engine.runtime.party import load_choices
from engine.strategies import build_plan, check_options
from tests.plans import described, job, made_up

FACTS = [("embed", "Embedding", 5000), ("rnn", "LSTM", 800), ("norm", "BatchNorm2d", 20), ("c", "Conv2d", 90)]
KINDS = ModelDescription(
    name="kinds",
    layers=tuple(
        LayerDescription(
            name=name,
            kind=kind,
            index=index,
            parameters=(ParameterDescription(name=f"{name}.p", shape=(count,), dtype="float32"),),
        )
        for index, (name, kind, count) in enumerate([*FACTS, ("fc", "Linear", 300), ("out", "Linear", 40)])
    ),
)


def spec(*overrides: dict[str, Any], strategy: str = "p3", workers: int = 2, **changes: Any) -> Any:
    return job(strategy, workers, changes.pop("options", None), overrides=list(overrides), **changes)


def plan(*overrides: dict[str, Any], model: ModelDescription = KINDS, **changes: Any) -> Plan:
    found = build_plan(spec(*overrides, **changes), model)
    assert isinstance(found, Plan)
    return found


def by_name(found: Plan) -> dict[str, LayerPlan]:
    return {entry.layer: entry for entry in found.layers}


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ({}, ["embed", "rnn", "norm", "c", "fc", "out"]),
        ({"layers": "*n*"}, ["rnn", "norm"]),
        ({"kind": "linear"}, ["fc", "out"]),
        ({"kind": "convolution"}, ["c"]),
        ({"kind": "norm"}, ["norm"]),
        ({"kind": "embedding"}, ["embed"]),
        ({"kind": "recurrent"}, ["rnn"]),
        ({"kind": "*2d"}, ["norm", "c"]),
        ({"kind": "linear", "least_parameters": 41}, ["fc"]),
        ({"least_parameters": 40, "most_parameters": 90}, ["c", "out"]),
        ({"layers": "[fo]*", "kind": "Linear", "most_parameters": 40}, ["out"]),
    ],
)
def test_layers_match_by_name_kind_and_size(override: dict[str, Any], names: list[str]) -> None:
    assert list(matching(Override(codec="fp16", **override), KINDS, "overrides.0")) == names


@pytest.mark.parametrize(
    ("override", "field", "message"),
    [
        ({"layers": "fc6"}, "layers", r"matches no trainable layer of kinds\. Use \* for any\. Known: embed, rnn"),
        ({"kind": "liner"}, "kind", r"none of the 6 layers\. Their kinds: BatchNorm2d, .* Known besides .*: linear"),
        ({"layers": "fc", "kind": "norm"}, "kind", "none of the one layer named fc. Their kinds: Linear"),
        ({"kind": "linear", "least_parameters": 301}, "least_parameters", "the largest has 300. Use a lower"),
        ({"layers": "f*", "most_parameters": 9}, "most_parameters", "named f.: the smallest has 300. Use a higher"),
        (
            {"least_parameters": 50, "most_parameters": 80}, "most_parameters", "none of the 4 layers: .* has 90",
        ),
    ],
)  # fmt: skip
def test_an_override_that_matches_nothing_is_refused_where_it_fails(
    override: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        plan({"codec": "fp16"}, {"codec": "fp16", **override})
    assert caught.value.field == f"overrides.1.{field}"
    assert caught.value.value == override[field]


def test_only_trainable_layers_match() -> None:
    model = made_up(((4, "float32", False),), (4,))
    assert [entry.layer for entry in plan({"codec": "fp16"}, model=model).layers] == ["l1"]
    with pytest.raises(UserError, match="no trainable layer"):
        plan({"layers": "l0", "codec": "fp16"}, model=model)


def test_large_linear_layers_by_factors_and_everything_else_by_p3() -> None:
    """Fully-connected layers of over a million parameters: factors; everything else: p3."""
    model = described("alexnet")
    found = plan({"kind": "linear", "least_parameters": 1_000_000, "exchange": "factors"}, model=model)
    late = {entry.layer: entry for entry in found.layers if entry.exchange == "factors"}
    assert list(late) == ["fc6", "fc7", "fc8"]
    assert {entry.update for entry in late.values()} == {"worker"}
    assert {entry.order for entry in late.values()} == {Order(unit="layer", rank="priority")}
    others = [entry for entry in found.layers if entry.layer not in late]
    assert {(entry.exchange, entry.order.unit) for entry in others} == {("parameter-server", "slice")}
    assert found.strategy == "p3"
    assert found.servers == Servers(count=2)


def test_later_ones_win_and_the_plan_says_which_set_what() -> None:
    overrides = (
        {"kind": "linear", "strategy": "ring-allreduce", "options": {"codec": "fp16"}},
        {"layers": "out", "codec": "fp32", "depart": "when-ready"},
        {"layers": "fc", "strategy": "tree-allreduce"},
    )
    found = plan(*overrides)
    layers = by_name(found)
    assert layers["c"].overrides == ()
    assert layers["out"].overrides == (0, 1)
    assert layers["fc"].overrides == (2,), "another strategy's choices take the place of all before"
    assert (layers["out"].exchange, layers["out"].codec) == ("ring-allreduce", "fp32")
    assert layers["out"].order.depart == "when-ready"
    assert layers["fc"].exchange == "tree-allreduce"
    # Each in its own override's place, as the page takes them.
    assert notes(found, KINDS, spec(*overrides)) == [
        "overrides.0: linear layers [out]: as ring-allreduce",
        "overrides.1: layers named out [out]: codec fp32, depart when-ready",
        "overrides.2: layers named fc [fc]: as tree-allreduce",
        *found.reasons,
    ]
    assert found.reasons
    assert all(note in text(found, KINDS, spec(*overrides)) for note in notes(found, KINDS, spec(*overrides)))
    assert from_plain(Plan, to_plain(found)) == found


def test_one_that_is_replaced_everywhere_is_warned_of() -> None:
    found = plan({"layers": "fc", "codec": "fp16"}, {"kind": "linear", "strategy": "ring-allreduce"})
    assert found.warnings == (
        "overrides.0 changes nothing: later ones replace it on every layer that it matches.",
    )


@pytest.mark.parametrize(
    ("strategy", "value", "order"),
    [
        ("p3", {"exchange": "ring-allreduce"}, ("slice", 50_000, "priority", "none")),
        ("p3", {"exchange": "native"}, ("slice", 50_000, "fifo", "none")),
        ("p3", {"exchange": "ring-allreduce", "unit": "bucket"}, ("bucket", 4 * 2**20, "priority", "none")),
        ("p3", {"unit": "layer"}, ("layer", None, "priority", "push")),
        ("p3", {"size": 7}, ("slice", 7, "priority", "push")),
        ("p3", {"returns": "notify-pull", "rank": "fifo"}, ("slice", 50_000, "fifo", "notify-pull")),
        ("native-allreduce", {"exchange": "parameter-server"}, ("layer", None, "fifo", "push")),
        ("native-allreduce", {"exchange": "tree-allreduce", "size": 9}, ("bucket", 9, "fifo", "none")),
        ("native-allreduce", {"exchange": "parameter-server", "unit": "slice"}, ("slice", 50_000, "fifo", "push")),
    ],
)  # fmt: skip
def test_what_the_order_cannot_mean_follows_the_exchange(
    strategy: str, value: dict[str, Any], order: tuple[Any, ...]
) -> None:
    found = by_name(plan({"layers": "fc", **value}, strategy=strategy))["fc"].order
    assert (found.unit, found.size, found.rank, found.returns) == order


def test_servers_come_and_go_with_the_layers_that_need_them() -> None:
    assert plan({"exchange": "ring-allreduce"}).servers == Servers()
    assert plan(
        {"layers": "fc", "exchange": "parameter-server"}, strategy="ring-allreduce"
    ).servers == Servers(count=2)
    assert plan(
        {"layers": "fc", "exchange": "central-reducer"}, strategy="ring-allreduce"
    ).servers == Servers(count=1)
    split = {
        "strategy": "parameter-server",
        "options": {"split_over": 100, "servers": 3, "where": "dedicated"},
    }
    beside = plan({"layers": "fc", **split}, strategy="ring-allreduce")
    assert beside.servers == Servers(count=3, where="dedicated", split_over=100)
    both = plan({"kind": "linear", **split}, options={"servers": 3, "where": "dedicated"})
    assert both.servers == beside.servers


def test_what_cannot_run_is_not_mended_by_a_later_override_of_something_else() -> None:
    for wrong, field in (
        ({"exchange": "native", "rank": "priority"}, "order.rank"),
        ({"exchange": "ring-allreduce", "returns": "push"}, "order.returns"),
        ({"exchange": "ring-allreduce", "update": "server"}, "update"),
    ):
        for later in ({}, {"depart": "after-backward"}):
            with pytest.raises(UserError) as caught:
                plan(*({"layers": "fc", **one} for one in (wrong, later) if one))
            assert caught.value.field == f"layers.fc.{field}"
    mended = plan(
        {"layers": "fc", "exchange": "native", "rank": "priority"}, {"layers": "fc", "rank": "fifo"}
    )
    assert by_name(mended)["fc"].order.rank == "fifo"


DEDICATED = {"strategy": "p3", "options": {"servers": 1, "where": "dedicated"}}
SPLIT = {"strategy": "parameter-server", "options": {"split_over": 10}}
REFUSED: list[tuple[list[dict[str, Any]], dict[str, Any], str, str]] = [
    ([{"layers": "fc"}], {}, "overrides.0", "'layers named fc': changes nothing. Give a strategy, or one of exchange"),
    ([{"codec": "zip"}], {}, "overrides.0.codec", "no such value of the axis codec"),
    ([{"layers": "fc", "exchange": "peers"}], {}, "layers.fc.exchange", "consistency own-pace"),
    ([{"codec": "fp16", "options": {"a": 1}}], {}, "overrides.0.options", "belong to no strategy"),
    ([{"codec": "fp16", "least_parameters": -1}], {}, "overrides.0.least_parameters", "must not be negative"),
    ([{"pattern": "fc"}], {}, "overrides.0.pattern", "no such field of Override"),
    ([{"unit": "layer", "size": 5}], {}, "overrides.0.size", "whole layers have no size"),
    ([{"size": 0}], {}, "overrides.0.size", "must be at least 1"),
    ([{"entropy_coding": True}], {}, "overrides.0.entropy_coding", "something of every element"),
    ([{"strategy": "p4"}], {}, "overrides.0.strategy", "no such strategy. Known: .*p3"),
    ([{"strategy": "p3", "options": {"slice": 5}}], {}, "overrides.0.options.slice", "Did you mean 'slice_size'"),
    ([{"strategy": "single"}], {}, "overrides.0.strategy", "single runs on one worker"),
    ([{"strategy": "ddp"}], {}, "overrides.0.strategy", "cannot be combined layer by layer: it is run by PyTorch"),
    (
        [{"strategy": "diloco"}], {"strategy": "parameter-averaging"}, "overrides.0.strategy",
        "chosen for the job: parameter-averaging says period 10, it says 500",
    ),
    ([{"strategy": "diloco"}], {}, "overrides.0.strategy", "says mode every-step, it says average"),
    ([{"codec": "fp16"}], {"strategy": "fsdp"}, "overrides", "decides by itself what travels. Leave overrides out"),
    ([{"layers": "fc", **DEDICATED}], {}, "overrides", "set of server shards .*: p3 wants 2 beside, p3 wants 1 ded"),
    (
        [{"layers": "fc", **SPLIT}], {"strategy": "parameter-server"}, "overrides",
        "one size from which layers are split over its shards. Give these strategies the same split_over",
    ),
    ([{"layers": "fc", "exchange": "native", "rank": "priority"}], {}, "layers.fc.order.rank", "hang or mix data"),
    ([{"layers": "fc", "exchange": "none"}], {}, "layers.fc.exchange", "2 workers would never agree"),
    ([{"layers": "fc", "exchange": "central-reducer"}], {}, "layers.fc.exchange", "a central reducer is one process"),
    ([{"codec": "fp16"}] * (MOST_OVERRIDES + 1), {}, "overrides", "more than 1000. Use patterns"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "changes", "field", "message"), REFUSED)
def test_what_cannot_be_composed_is_refused(
    overrides: list[dict[str, Any]], changes: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        plan(*overrides, **changes)
    assert caught.value.field == field
    assert caught.value.remedy


def test_everything_that_is_refused_of_a_job_is_said_at_once() -> None:
    """What overrides cannot mean, and the rules that the other layers break; what is unclear is not judged."""
    overrides: list[dict[str, Any]] = [
        {"layers": "fc9", "codec": "fp16"},
        {"layers": "[cr]*", "exchange": "native", "rank": "priority"},
        {"kind": "linear", "unit": "layer"},
        {"layers": "[rfo]*", "size": 5},
        {"layers": "norm", "strategy": "ddp"},
        {"layers": "norm", "exchange": "native", "rank": "priority"},
    ]
    with pytest.raises(UserError) as caught:
        plan(*overrides)
    found = {error.field: error for error in caught.value.every}
    assert list(found) == ["overrides.0.layers", "overrides.3.size", "overrides.4.strategy", "layers.rnn.order.rank",
                           "layers.c.order.rank"]  # fmt: skip
    assert found["overrides.3.size"].rule == "whole layers have no size (fc, out)"
    assert all(error.remedy for error in found.values())


def test_an_override_of_layers_on_one_device_says_which() -> None:
    with pytest.raises(
        UserError, match=r"nothing of these layers is exchanged \(6\)\. Match layers in front"
    ):
        plan({"codec": "fp16"}, model=described("cnn"), strategy="hybrid")


def test_names_and_options_are_looked_at_without_a_description() -> None:
    check_options(spec({"strategy": "p3", "options": {"slice_size": 5}}, {"codec": "fp16"}))
    with pytest.raises(UserError, match="Did you mean 'slice_size'") as caught:
        check_options(spec({"codec": "fp16"}, {"strategy": "p3", "options": {"slice": 5}}))
    assert caught.value.field == "overrides.1.options.slice"


def test_what_is_derived_stays_derived() -> None:
    """Norm clipping moves every update to the workers, composed or not."""
    clipped = {"steps": 1, "clip_norm": 1.0}
    found = plan({"layers": "fc", "strategy": "ring-allreduce"}, training=clipped)
    assert {entry.update for entry in found.layers} == {"worker"}
    assert {row.barrier for row in rows(found, KINDS, spec(training=clipped))} == {"all units"}


def test_a_queue_beside_priorities_is_as_urgent_as_its_most_urgent_layer(tmp_path: Path) -> None:
    """`c` and `out` are first come, first served: as urgent as `c`, and an older step's before a newer one's. What
    PyTorch sends by itself does not stand in our queue."""
    queued = [{"layers": name, "rank": "fifo"} for name in ("c", "out")]
    overrides = [*queued, {"layers": "embed", "exchange": "native"}]
    launch = prepare(spec(*overrides), plan(*overrides), KINDS, tmp_path)
    choices = {choice.layer.layer: choice for choice in load_choices(launch).values()}
    found = {name: rank_in_step(choice.priority(7)) for name, choice in choices.items()}
    assert found == {"embed": 3, "rnn": 1, "norm": 2, "c": 3, "fc": 4, "out": 3}
    assert choices["out"].priority(6) < choices["rnn"].priority(7)


def test_a_queue_without_priorities_has_none(tmp_path: Path) -> None:
    overrides = [{"layers": "fc", "strategy": "ring-allreduce"}]
    spec_ = spec(*overrides, strategy="parameter-server")
    launch = prepare(spec_, plan(*overrides, strategy="parameter-server"), KINDS, tmp_path)
    assert {choice.priority(7) for choice in load_choices(launch).values()} == {0}


def test_the_schema_explains_overrides() -> None:
    fields = job_schema()["$defs"]["Override"]["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []
    assert set(VALUES) < set(fields)
