"""Sizes that are left to us follow from what a message costs and from the link, and the plan says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine import message_cost
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.encoding import encoding
from engine.plan.plan import MessageCost, Plan
from engine.plan.rehearsal import RehearsalSpec
from engine.plan.sizing import LEAST_BUCKET, LEAST_SLICE, bucket_bytes, slice_elements
from engine.strategies import build_plan
from tests.plans import described, job, planned

VGG = tuple(layer for layer in described("vgg19").layers if layer.parameters)
GBIT = 1_000_000_000
COST = MessageCost(seconds=200e-6)
UNKNOWN = MessageCost(why="no sockets here.")


def cluster(rate_bps: int | None, message_us: float, workers: int = 4) -> Cluster:
    return Cluster(workers=workers, rate_bps=rate_bps, message=MessageCost(seconds=message_us * 1e-6))


@pytest.mark.parametrize(
    ("rate_bps", "message_us", "elements", "why"),
    [
        (GBIT // 10, 200, LEAST_SLICE, "shorter ones gain nothing"),  # 25 kB would do
        (3 * GBIT, 200, 4 * LEAST_SLICE, "shorter ones would cost more"),  # 750 kB wanted, 800 kB taken
        (3 * GBIT, 400, 8 * LEAST_SLICE, "shorter ones would cost more"),
        (3 * GBIT, 20, LEAST_SLICE, "shorter ones gain nothing"),
        (None, 200, 16 * LEAST_SLICE, "shorter ones would cost more"),  # 10 Gbit/s: 2.5 MB wanted
    ],
)
def test_a_slice_is_as_long_on_its_link_as_its_message_costs(
    rate_bps: int | None, message_us: float, elements: int, why: str
) -> None:
    found = slice_elements(VGG, cluster(rate_bps, message_us), 4, encoding("fp32"))
    assert found.size == elements
    assert f"{elements:,} elements" in found.why
    assert f"{message_us:g} µs" in found.why
    assert found.why.endswith(why)


def test_a_declared_rate_counts_as_a_limit_does() -> None:
    declared = Cluster(workers=4, declared_bps=3 * GBIT, message=COST)
    limited, way = cluster(3 * GBIT, 200), encoding("fp32")
    assert slice_elements(VGG, declared, 4, way) == slice_elements(VGG, limited, 4, way)
    assert (
        "not known (network.declared_rate)"
        in slice_elements(VGG, cluster(None, 200), 4, encoding("fp32")).why
    )


def test_slices_stay_so_small_that_every_shard_gets_several() -> None:
    dear = slice_elements(VGG, cluster(100 * GBIT, 1000), 4, encoding("fp32"))
    count = sum(layer.parameter_count for layer in VGG)
    assert count / 4 / 16 < dear.size <= count / 4 / 8
    assert dear.why.endswith("this model would be cut into too few of them")
    (small,) = (layer for layer in VGG if layer.parameter_count < LEAST_SLICE and layer.index == 0)
    assert slice_elements((small,), cluster(100 * GBIT, 1000), 4, encoding("fp32")).size == LEAST_SLICE


def test_a_codec_that_halves_messages_doubles_what_is_in_them() -> None:
    assert slice_elements(VGG, cluster(3 * GBIT, 200), 4, encoding("fp16")).size == 8 * LEAST_SLICE
    assert bucket_bytes(VGG, cluster(3 * GBIT, 200), encoding("fp16")).size == 8 * LEAST_BUCKET


def test_a_buckets_messages_are_as_long_as_a_slices() -> None:
    assert bucket_bytes(VGG, cluster(GBIT // 10, 200), encoding("fp32")).size == LEAST_BUCKET
    assert bucket_bytes(VGG, cluster(3 * GBIT, 200), encoding("fp32")).size == 4 * LEAST_BUCKET, (
        "750 kB for each of four workers"
    )
    assert bucket_bytes(VGG, cluster(3 * GBIT, 200, workers=2), encoding("fp32")).size == 2 * LEAST_BUCKET


@pytest.mark.parametrize(
    ("strategy", "option"),
    [("p3", "slice_size"), ("softsync", "slice_size"), ("ring-allreduce-overlap", "bucket_bytes")],
)
def test_what_is_left_to_us_is_measured_and_shown(
    monkeypatch: pytest.MonkeyPatch, strategy: str, option: str
) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    options = {option: "auto"} | ({"contributions": 2} if strategy == "softsync" else {})
    spec = job(strategy, 4, options, network={"rate": "3Gbit"})
    plan = build_plan(spec, described("vgg19"))
    assert isinstance(plan, Plan)
    sizes = {entry.order.size for entry in plan.layers if entry.order.unit == "slice"}
    assert max(sizes) in (4 * LEAST_SLICE, LEAST_BUCKET)
    (why,) = plan.reasons
    assert f"({option}: auto): a message costs 200 µs of a processor here, and the link is 3000 Mbit/s" in why


def test_a_number_means_that_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: pytest.fail("nothing is left to us"))
    plan = planned("p3", "vgg19", 4, slice_size=1234)
    assert {entry.order.size for entry in plan.layers} == {1234}
    assert plan.reasons == ()


@pytest.mark.parametrize("options", [{}, {"slice_size": "auto"}], ids=["left out", "auto"])
def test_where_it_cannot_be_measured_slices_have_their_usual_size(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """A job that says nothing of slices is not refused for them."""
    monkeypatch.setattr(message_cost, "here", lambda: UNKNOWN)
    plan = planned("p3", "vgg19", 4, **options)
    assert isinstance(plan, Plan)
    assert {entry.order.size for entry in plan.layers} == {50_000}
    assert plan.reasons == (
        "Slices have up to 50,000 elements (slice_size: auto): what a message costs on this machine is not known",
    )
    (warning,) = plan.warnings
    assert (
        "could not be measured (no sockets here): sizes that are left to us (auto) are the usual" in warning
    )
    assert plan.message == UNKNOWN


def test_where_it_cannot_be_measured_buckets_have_their_usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: UNKNOWN)
    plan = planned("ring-allreduce-overlap", "vgg19", 4, bucket_bytes="auto")
    usual = planned("ring-allreduce-overlap", "vgg19", 4)
    assert plan.layers == usual.layers
    assert (len(plan.warnings), len(usual.warnings)) == (1, 0)


def test_who_leaves_no_size_to_us_is_told_of_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: UNKNOWN)
    replaced = build_plan(job("p3", 4, overrides=[{"size": 100_000}]), described("vgg19"))
    for plan in (replaced, planned("p3", "vgg19", 4, slice_size=1234), planned("p3", "cnn", 2)):
        assert isinstance(plan, Plan)
        assert (plan.warnings, plan.message) == ((), None)


def test_a_cost_that_is_known_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: pytest.fail("it is known"))
    plan = build_plan(job("p3", 4, network={"rate": "3Gbit"}), described("vgg19"), COST)
    assert isinstance(plan, Plan)
    assert plan.message == COST
    assert {entry.order.size for entry in plan.layers} == {4 * LEAST_SLICE}


def test_a_number_or_the_word_is_asked_for() -> None:
    with pytest.raises(UserError, match="must be a whole number or auto") as said:
        planned("p3", "vgg19", 4, slice_size="automatic")
    assert said.value.field == "strategy.options.slice_size"


def test_a_rehearsal_has_the_true_clusters_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    true = job("p3", 4, {"slice_size": "auto"}, network={"rate": "3Gbit"})
    rehearsed = replace(true, fidelity="rehearse", rehearsal=RehearsalSpec(device="p4000", scale=15))
    sizes = {
        entry.order.size
        for spec in (true, rehearsed)
        for entry in build_plan(spec, described("vgg19")).layers
    }
    assert sizes == {4 * LEAST_SLICE}


def test_an_overrides_reason_says_that_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    override = {"layers": "conv5_*", "strategy": "p3", "options": {"slice_size": "auto"}}
    plan = build_plan(job("parameter-server", 4, overrides=[override]), described("vgg19"))
    assert isinstance(plan, Plan)
    (why,) = plan.reasons
    assert why.startswith("Overrides with p3: Slices have up to ")


@pytest.mark.parametrize(
    ("strategy", "overrides", "said"),
    [
        ("p3", ["parameter-slicing"], [""]),
        ("p3", ["p3"], [""]),
        ("parameter-server", ["p3", "parameter-slicing"], ["Overrides with p3 and parameter-slicing: "]),
        ("parameter-server", ["p3", "p3"], ["Overrides with p3: "]),
    ],
)
def test_the_same_reason_is_given_once(
    monkeypatch: pytest.MonkeyPatch, strategy: str, overrides: list[str], said: list[str]
) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    chosen = [
        {"layers": layers, "strategy": name}
        for layers, name in zip(("conv4_*", "conv5_*"), overrides, strict=False)
    ]
    plan = build_plan(job(strategy, 4, overrides=chosen), described("vgg19"))
    assert isinstance(plan, Plan)
    assert [why.partition("Slices have up to ")[0] for why in plan.reasons] == said


def test_reasons_that_differ_are_all_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    override = {"layers": "conv5_*", "strategy": "parameter-slicing", "options": {"codec": "fp16"}}
    plan = build_plan(job("p3", 4, network={"rate": "3Gbit"}, overrides=[override]), described("vgg19"))
    assert isinstance(plan, Plan)
    assert [why.partition(" elements")[0] for why in plan.reasons] == [
        "Slices have up to 200,000",
        "Overrides with parameter-slicing: Slices have up to 400,000",
    ]


def test_a_size_that_overrides_replace_everywhere_has_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_cost, "here", lambda: COST)
    for override, said in (
        ({"size": 100_000}, 0),
        ({"unit": "layer"}, 0),
        ({"layers": "fc*", "size": 100_000}, 1),
        ({"codec": "fp16"}, 1),
    ):
        plan = build_plan(job("p3", 4, overrides=[override]), described("vgg19"))
        assert isinstance(plan, Plan)
        assert len(plan.reasons) == said, override
