"""Per-layer composition: every pair of mechanisms trains one network to the exact class, or a rule refuses it.

One job gives every layer of a deep, narrow network other choices, so that all pairs of values across layers meet in
one gang, and the layers' choices together hold every pair that one layer can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.updates import OptimizerSpec, ParameterGroupSpec
from engine.strategies import STRATEGIES, build_plan, strategy
from engine.strategies.base import Strategy
from tests.equivalence.against_plain import USER_CODE
from tests.equivalence.test_synchronous_strategies import OPTIONS
from tests.jobs import Run, describe, distance, job, reference, succeed
from tests.pairs import (
    KINDS,
    MOVES,
    SIZES,
    Choices,
    Pair,
    Refusal,
    Verdict,
    choices_of,
    covering,
    every_choice,
    every_option,
    every_pair,
    holding_pairs,
    kind_of,
    pairs_in,
    refusals_in,
    unwaited,
    verdicts_of,
)
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")
"""Also of tests that start none: what every combination of choices comes to is found once for all, for seconds."""
STEPS = 4
DEPTH = 6
"""Of the network for which plans are composed only: deep enough to be cut for every number of workers."""
STAGES: dict[str, Any] = {"name": "model-parallel", "options": {"stages": 2}}
IN_ROUNDS = ("ring-allreduce", "tree-allreduce", "recursive-halving-doubling")
PEERS = ("ddp", "fsdp")
"""PyTorch's own wrappers choose for no layer."""
SMALL = (
    OPTIONS
    | {name: {"slice_size": 100} for name in ("parameter-slicing", "p3")}
    | {name: {"layers": "all"} for name in ("late-multiply", "p3+late-multiply")}
)
"""Options that suit the small network: many units, and factors although they move more."""


def spec_of(workers: int, depth: int, overrides: Sequence[dict[str, Any]] = (), **strategy: Any) -> JobSpec:
    return job(
        model={"entrypoint": "stack:build", "directory": str(USER_CODE), "options": {"depth": depth}},
        strategy=strategy or {"name": "single"},
        overrides=list(overrides),
        cluster={"workers": workers},
        training={"steps": STEPS, "precision": "float64"},
    )


@cache
def model(depth: int = 2) -> ModelDescription:
    return describe(spec_of(1, depth))


@cache
def verdicts(workers: int, *, waits: bool) -> list[Verdict]:
    return verdicts_of(
        model(1), workers, waits=waits
    )  # what is refused of a layer is so whatever others choose


def possible_choices(workers: int) -> list[Choices]:
    """Of jobs in which workers meet in every step."""
    return [choices for choices, error in verdicts(workers, waits=True) if error is None]


def unwaited_choices() -> list[Choices]:
    """Of jobs in which nobody waits for another worker's updates."""
    return [choices for choices, error in verdicts(2, waits=False) if error is None]


@cache
def refused_pairs(workers: int) -> dict[Pair, Refusal]:
    """In the order of all choices: where two rules refuse as much, the first is meant."""
    found = {waits: iter(verdicts(workers, waits=waits)) for waits in (True, False)}
    return refusals_in([next(found[not unwaited(choices)]) for choices in every_choice()])


def assert_close(far: float, *, bound: float, kind: str) -> None:
    """Within the bound, or where a codec rounds near it but not equal: what is equal was not rounded."""
    assert far <= bound if kind == "lossless" else 0 < far <= KINDS[kind]


def by_layer(rows: Sequence[Choices]) -> list[dict[str, Any]]:
    """One override per layer; choices in buckets get two neighbours, so that a bucket holds two layers."""
    layers = [row for row in rows for _ in range(2 if row["unit"] == "bucket" else 1)]
    return [
        {
            "layers": f"layers.{index}",
            "size": SIZES[row["unit"]],
            "activation_options": MOVES.get(row["activations"], {}),
            **row,
        }
        for index, row in enumerate(layers)
    ]


def trained(
    overrides: Sequence[dict[str, Any]], workers: int, directory: Path, *, more: int = 0, **strategy: Any
) -> tuple[Run, float]:
    """The finished job and its distance from one process on the same shards; bytes are as declared. Behind the layers
    with overrides stand as many `more`."""
    depth = len(overrides) + more
    run = succeed(spec_of(workers, depth, overrides, **strategy), directory)
    plan = run.launch.plan
    assert isinstance(plan, Plan)
    assert sum(bool(entry.overrides) for entry in plan.layers) == len(overrides)
    assert_bytes(run, plan)
    return run, distance(run.state, reference(spec_of(1, depth), workers))


def assert_bytes(run: Run, plan: Plan) -> None:
    """What our transport counted of its layers is what the plan declares of them."""
    index = {layer.name: layer.index for layer in run.launch.model.layers}
    counted = {index[e.layer] for e in plan.layers if "counted" in EXCHANGE[e.exchange].traits}
    assert_declared(run, counted)


def test_every_pair_of_values_combines_or_is_refused_by_a_rule() -> None:
    refusals = refused_pairs(2)
    allowed = pairs_in([*possible_choices(2), *possible_choices(1), *unwaited_choices()])
    assert not every_pair() - allowed - set(refusals), "refused, but by no rule about the two"
    for pair in set(refusals) - allowed:
        module, _, name = refusals[pair].rule.partition(".")
        assert module in ("layer_rules", "plan"), (pair, refusals[pair])
        assert name.startswith("_"), (pair, refusals[pair])
        assert refusals[pair].error.rule
        assert refusals[pair].error.remedy


def test_a_few_pairs_are_known_to_be_refused() -> None:
    """That the table says something: what no runtime of ours could do is in it."""
    refusals = refused_pairs(2)
    expected = {
        (("exchange", "native"), ("rank", "priority")): "layer_rules._ordered_collectives_keep_one_order",
        (("exchange", "native"), ("codec", "fp16")): "layer_rules._sums_of_what_travels_are_exact",
        (("exchange", "ring-allreduce"), ("returns", "push")): "layer_rules._returns_belong_to_servers",
        (("exchange", "ring-allreduce"), ("update", "server")): "layer_rules._updates_need_a_server",
        (("exchange", "parameter-server"), ("unit", "bucket")): "layer_rules._buckets_have_no_home",
        (("exchange", "factors"), ("unit", "slice")): "layer_rules._factors_travel_whole",
        (("exchange", "peers"), ("unit", "bucket")): "layer_rules._buckets_are_taken_whole",
    }
    assert {pair: refusals[frozenset(pair)].rule for pair in expected} == expected


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.soak), 4])
def test_every_pair_that_combines_is_exact_in_one_job(workers: int, tmp_path: Path) -> None:
    rows = holding_pairs(possible_choices(2), "lossless")
    run, far = trained(by_layer(rows), workers, tmp_path, name="p3", options={"servers": 1})
    assert far <= 1e-12
    meeting = [row for row in EXCHANGE if row.available and "unwaited" not in row.traits]
    available = {row.name for row in meeting} - {"none"}
    assert {entry.exchange for entry in run.launch.plan.layers} == available


def rounding_rows(kind: str) -> list[Choices]:
    """Every pair with a codec of the kind, beside lossless layers of every exchange."""
    possible = possible_choices(2)
    exact = [choices for choices in possible if kind_of(choices) == "lossless"]
    beside = {frozenset({("exchange", c["exchange"]), ("codec", c["codec"])}) for c in exact}
    return holding_pairs(possible, kind) + covering(exact, beside)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lossless"])
def test_every_pair_with_a_codec_that_rounds_stays_close(kind: str, tmp_path: Path) -> None:
    _, far = trained(by_layer(rounding_rows(kind)), 2, tmp_path, name="p3", options={"servers": 1})
    assert_close(far, bound=0.0, kind=kind)


def test_every_pair_with_a_codec_that_has_the_momentum_stays_close(tmp_path: Path) -> None:
    """Its layers have none in the optimizer; the layers beside them have."""
    overrides = by_layer(rounding_rows("moving"))
    optimizer = spec_of(1, 1).optimizer
    groups = tuple(
        ParameterGroupSpec(match=f"{override['layers']}.*", options={"momentum": 0.0})
        for override in overrides
        if kind_of(override) == "moving"
    )
    spec = spec_of(2, len(overrides), overrides, name="p3", options={"servers": 1})
    run = succeed(replace(spec, optimizer=replace(optimizer, groups=groups)), tmp_path)
    assert isinstance(run.launch.plan, Plan)
    assert_bytes(run, run.launch.plan)
    far = distance(run.state, reference(spec_of(1, len(overrides)), 2))
    assert_close(far, bound=0.0, kind="remembered")


def rows_of_one_worker() -> list[Choices]:
    """Every pair that two workers cannot hold: `none`, beside every other exchange."""
    alone = [choices for choices in possible_choices(1) if kind_of(choices) == "lossless"]
    wanted = pairs_in(alone) - pairs_in(possible_choices(2))
    beside = {frozenset({("exchange", c["exchange"]), ("unit", c["unit"])}) for c in alone}
    return covering(alone, wanted | beside)


def test_what_only_one_worker_can_hold_combines_there(tmp_path: Path) -> None:
    _, far = trained(by_layer(rows_of_one_worker()), 1, tmp_path, name="p3", options={"servers": 1})
    assert far <= 1e-12


def unwaited_rows(kind: str) -> list[Choices]:
    return holding_pairs(unwaited_choices(), kind)


@cache
def trained_pairs() -> set[Pair]:
    """Of a layer's choices, in those jobs."""
    return pairs_in(
        [
            *holding_pairs(possible_choices(2), "lossless"),
            *(row for kind in KINDS if kind != "lossless" for row in rounding_rows(kind)),
            *rounding_rows("moving"),
            *rounding_rows("voting"),
            *rows_of_one_worker(),
            *(row for kind in KINDS for row in unwaited_rows(kind)),
        ]
    )


@pytest.mark.parametrize("entry", [e for e in STRATEGIES if e.name not in PEERS], ids=lambda e: e.name)
def test_what_a_strategy_chooses_for_a_layer_was_trained_above(entry: Strategy) -> None:
    """With whatever options: every two of a layer's choices stand together in a layer of one of those jobs."""
    cuts = {"cut", "stages"} & {f.name for f in fields(entry.options)}
    plans, depth = 0, DEPTH if cuts else 2  # where nothing is cut, layers that are alike are planned alike
    for workers, options in product((1, 2, 4), every_option(entry)):
        try:
            plan = build_plan(spec_of(workers, depth, name=entry.name, options=options), model(depth))
        except UserError:
            continue
        assert isinstance(plan, Plan)
        plans += 1
        for choices in {tuple(choices_of(layer).items()) for layer in plan.layers}:
            assert pairs_in([dict(choices)]) <= trained_pairs(), (workers, options, choices)
    assert plans, "no plan was possible"


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_that_sums_averages_in_one_job(kind: str, tmp_path: Path) -> None:
    """Workers that train alone: with period 1, plain SGD and equal shards, synchronous SGD."""
    possible = [
        choices
        for choices in possible_choices(2)
        if choices["update"] == "worker" and "sums" in EXCHANGE[choices["exchange"]].traits
    ]
    overrides = by_layer(holding_pairs(possible, kind))
    averaging = {"name": "parameter-averaging", "options": {"period": 1}}
    sgd = OptimizerSpec(learning_rate=0.05)
    run = succeed(replace(spec_of(2, len(overrides), overrides, **averaging), optimizer=sgd), tmp_path)
    expected = reference(replace(spec_of(1, len(overrides)), optimizer=sgd), 2)
    assert_close(distance(run.state, expected), bound=1e-11, kind=kind)
    assert isinstance(run.launch.plan, Plan)
    assert run.launch.plan.consistency.mode == "average"
    assert_bytes(run, run.launch.plan)


def small(entry: Strategy, servers: dict[str, Any]) -> dict[str, Any]:
    """A strategy with options for the small network, and so many servers where it has any."""
    options = {
        name: value for name, value in servers.items() if name in {f.name for f in fields(entry.options)}
    }
    return {"name": entry.name, "options": SMALL.get(entry.name, {}) | options}


def beside_p3(workers: int, servers: dict[str, Any]) -> tuple[list[Strategy], dict[str, str]]:
    """The strategies that can have a layer of a p3 job, and why the others cannot."""
    combined, reasons = [], {}
    for entry in STRATEGIES:
        found = composed(small(strategy("p3"), servers), small(entry, servers), workers)
        if isinstance(found, UserError):
            reasons[entry.name] = found.rule
        else:
            combined.append(entry)
    return combined, reasons


@pytest.mark.parametrize(("workers", "servers"), [(3, {"servers": 1}), (4, {})])
def test_all_strategies_that_combine_are_exact_in_one_job(
    workers: int, servers: dict[str, Any], tmp_path: Path
) -> None:
    """Two layers each. With one shard central-reduce can join; without it every worker has a shard."""
    exact = [entry for entry in beside_p3(workers, servers)[0] if entry.proof == "exact"]
    assert ("central-reduce" in [entry.name for entry in exact]) == bool(servers)
    _, far = trained(as_overrides(exact, servers), workers, tmp_path, **small(strategy("p3"), servers))
    assert far <= 1e-12


def test_the_layers_in_front_of_a_cut_combine_as_any_others(tmp_path: Path) -> None:
    """Hybrid parallelism with every strategy in front of the device that computes the last two layers."""
    servers = {"servers": 1}
    exact = [entry for entry in beside_p3(3, servers)[0] if entry.proof == "exact"]
    overrides = as_overrides(exact, servers)
    options = {"cut": f"layers.{len(overrides)}"}
    run, far = trained(overrides, 3, tmp_path, more=2, name="hybrid", options=options)
    assert far <= 1e-12
    assert [layer.placement for layer in run.launch.plan.layers][-3:] == ["replicated", "device", "device"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_replicas_of_a_stage_exchange_each_layer_in_its_own_way(kind: str, tmp_path: Path) -> None:
    """Two stages, two replicas, and every pair that they can hold."""
    possible = [choices for choices in possible_choices(2) if choices["exchange"] in IN_ROUNDS]
    overrides = by_layer(holding_pairs(possible, kind))
    run = succeed(spec_of(4, len(overrides), overrides, **STAGES), tmp_path)
    assert all(entry.overrides for entry in run.launch.plan.layers)
    far = distance(run.state, reference(spec_of(1, len(overrides)), 2))
    assert_close(far, bound=1e-12, kind=kind)
    assert_declared(run)


def test_other_exchanges_between_replicas_of_a_stage_are_refused() -> None:
    for mechanism in EXCHANGE:
        if not mechanism.available or mechanism.name in IN_ROUNDS:
            continue
        with pytest.raises(UserError, match=r"2 workers hold this stage.* Use one of: ring"):
            build_plan(
                spec_of(4, 4, [{"layers": "layers.3", "exchange": mechanism.name}], **STAGES), model(4)
            )


def as_overrides(strategies: Sequence[Strategy], servers: dict[str, Any]) -> list[dict[str, Any]]:
    """Two layers for each of the strategies."""
    found: list[dict[str, Any]] = []
    for entry in sorted([*strategies, *strategies], key=strategies.index):
        options = small(entry, servers)["options"]
        found.append({"layers": f"layers.{len(found)}", "strategy": entry.name, "options": options})
    return found


def composed(base: dict[str, Any], other: dict[str, Any], workers: int = 2) -> Plan | Wrapper | UserError:
    """The plan of a job by `base` whose first layer `other` chooses, or why there is none."""
    override = {"layers": "layers.0", "strategy": other["name"], "options": other["options"]}
    try:
        return build_plan(spec_of(workers, DEPTH, [override], **base), model(DEPTH))
    except UserError as error:
        return error


@pytest.mark.parametrize("servers", [{}, {"servers": 1}], ids=["shards everywhere", "one shard"])
@pytest.mark.parametrize("one", STRATEGIES, ids=lambda entry: entry.name)
def test_two_strategies_combine_or_the_reason_is_said(one: Strategy, servers: dict[str, Any]) -> None:
    theirs = small(one, servers)
    for entry in STRATEGIES:
        if entry.name == "single":
            continue
        ours = small(entry, servers)
        mixed = composed(ours, theirs)
        if isinstance(mixed, UserError):
            assert mixed.field.startswith(("overrides", "layers.layers.0.")), (entry.name, mixed)
            assert mixed.remedy
            continue
        whole, other = (build_plan(spec_of(2, DEPTH, **chosen), model(DEPTH)) for chosen in (ours, theirs))
        assert mixed.layers[0].overrides == (0,)
        assert replace(mixed.layers[0], overrides=()) == other.layers[0]
        assert mixed.layers[1:] == whole.layers[1:]


def test_who_cannot_join_a_p3_job_and_why() -> None:
    combined, reasons = beside_p3(2, {})
    assert "ring-allreduce" in [entry.name for entry in combined]
    assert reasons["single"].startswith("single runs on one worker")
    assert "PyTorch's own wrapper" in reasons["ddp"]
    assert "PyTorch's own wrapper" in reasons["fsdp"]
    assert "one set of server shards" in reasons["central-reduce"]
    assert "central-reduce" not in beside_p3(2, {"servers": 1})[1]


def test_every_consistency_that_is_built_has_a_strategy() -> None:
    """It is chosen for the job, so a pair with it is a job of its own, as the one with averaging above."""
    plans = [build_plan(spec_of(2, 2, **small(e, {})), model()) for e in STRATEGIES if e.name != "single"]
    modes = {plan.consistency.mode for plan in plans if isinstance(plan, Plan)}
    assert modes == {mechanism.name for mechanism in CONSISTENCY if mechanism.available}
