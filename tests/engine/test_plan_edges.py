"""The codec of edges: part of the plan, counted in its bytes message by message, and refused where nothing follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.axes.codec import CODEC
from engine.errors import UserError
from engine.plan.plan import Edge, Plan, Workload
from engine.plan.serde import from_plain, to_plain
from engine.preview import text
from engine.simulate.declared import declared
from engine.strategies import build_plan
from tests.plans import described, job

CLOSE = [m.name for m in CODEC if m.available and m.traits & {"lossless", "close"}]
CUTS: dict[str, dict[str, Any]] = {
    "hybrid": {"cut": "6", "where": "dedicated"},
    "model-parallel": {"stages": 2, "cuts": ["6"]},
}


def spec_of(
    strategy: str, *, workers: int = 2, samples: int = 26, micro_batches: int = 1, **options: Any
) -> Any:
    training = {"steps": 1, "global_batch": samples, "micro_batches": micro_batches}
    return job(strategy, workers, {**CUTS[strategy], **options}, model={"name": "cnn"}, training=training)


def plan_of(spec: Any) -> Plan:
    found = build_plan(spec, described("cnn"))
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize("strategy", CUTS)
@pytest.mark.parametrize("codec", CLOSE)
def test_a_strategy_hands_it_on(strategy: str, codec: str) -> None:
    (edge,) = plan_of(spec_of(strategy, edge_codec=codec)).edges
    assert edge.codec == codec
    assert from_plain(Edge, to_plain(edge)) == edge


def test_its_options_have_defaults_and_stand_in_the_plan() -> None:
    (edge,) = plan_of(spec_of("hybrid", edge_codec="int8")).edges
    assert edge.codec_options == {"block": 256}
    (edge,) = plan_of(spec_of("hybrid", edge_codec="fp8", edge_codec_options={"block": 64})).edges
    assert edge.codec_options == {"block": 64}


@pytest.mark.parametrize(
    ("samples", "workers", "parts", "passes"),
    [
        (26, 2, 1, [13, 13]),
        (26, 2, 3, [5, 4, 4, 5, 4, 4]),
        (7, 3, 2, [2, 1, 1, 1, 1, 1]),
    ],
)
def test_every_micro_batch_is_a_message_of_its_own(
    samples: int, workers: int, parts: int, passes: list[int]
) -> None:
    """A sample has 128 elements where the model is cut."""
    options = {"edge_codec": "int8", "edge_codec_options": {"block": 100}}
    spec = spec_of("hybrid", workers=workers, samples=samples, micro_batches=parts, **options)
    plan, model = plan_of(spec), described("cnn")
    crossing = [t for t in declared(plan, model, workers) if t.layer == "6"]
    assert sum(t.bytes for t in crossing) == 2 * sum(128 * n + 4 * -(-128 * n // 100) for n in passes)
    exact = plan_of(replace(spec, strategy=replace(spec.strategy, options=CUTS["hybrid"])))
    assert sum(t.bytes for t in declared(exact, model, workers) if t.layer == "6") == 2 * samples * 128 * 4


@pytest.mark.parametrize(("samples", "ranks", "parts"), [(26, 2, 3), (7, 3, 2), (5, 4, 4), (1, 2, 3)])
def test_shares_of_micro_batches_add_up(samples: int, ranks: int, parts: int) -> None:
    workload = Workload(samples=samples, micro_batches=parts)
    shares = [workload.shares(rank, ranks) for rank in range(ranks)]
    assert all(len(each) == parts for each in shares)
    assert [sum(each) for each in shares] == [workload.share(rank, ranks) for rank in range(ranks)]


def test_a_cheaper_edge_may_be_another_cut() -> None:
    """The automatic cut is the one that moves the fewest bytes, and these depend on the codec."""
    spec = job("hybrid", 2, {"where": "dedicated", "reducer": "dedicated"}, model={"name": "alexnet"},
               data={"name": "synthetic"}, training={"steps": 1, "global_batch": 20_000})  # fmt: skip
    model = described("alexnet")
    cuts = {}
    for codec in ("fp32", "int8"):
        options = {**spec.strategy.options, "edge_codec": codec}
        found = build_plan(replace(spec, strategy=replace(spec.strategy, options=options)), model)
        assert isinstance(found, Plan)
        cuts[codec] = found.edges[0].destination
    assert cuts == {"fp32": "fc7", "int8": "fc6"}


@pytest.mark.parametrize("strategy", CUTS)
def test_the_table_says_it(strategy: str) -> None:
    model = described("cnn")
    spec = spec_of(strategy, edge_codec="int8")
    assert "132 B per sample as int8, and as many back" in text(plan_of(spec), model, spec)
    spec = spec_of(strategy)
    assert "512 B per sample, and as many back" in text(plan_of(spec), model, spec)


@pytest.mark.parametrize("strategy", CUTS)
@pytest.mark.parametrize("codec", [m.name for m in CODEC if m.available and m.name not in CLOSE])
def test_what_needs_a_successor_does_not_cross(strategy: str, codec: str) -> None:
    with pytest.raises(
        UserError, match=rf"edges\.0\.codec = '{codec}': .*have no successor\. Use fp32, fp16"
    ):
        plan_of(spec_of(strategy, edge_codec=codec))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"edge_codec": "int9"}, "strategy.options.edge_codec"),
        (
            {"edge_codec": "int8", "edge_codec_options": {"block": 7}},
            "strategy.options.edge_codec_options.block",
        ),
    ],
)
@pytest.mark.parametrize("strategy", CUTS)
def test_what_is_wrong_is_named(strategy: str, given: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as caught:
        plan_of(spec_of(strategy, **given))
    assert caught.value.field == field
