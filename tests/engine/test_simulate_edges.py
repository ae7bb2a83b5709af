"""Stages and devices on the virtual clock: they move what is declared, and wait for one another as a pipeline does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from engine.consistency.every_step import EveryStep
from engine.plan.cluster import device_party
from engine.plan.plan import Plan
from engine.plan.units import cut
from engine.simulate.declared import declared
from engine.simulate.happened import Compute
from engine.simulate.network import VirtualNetwork
from engine.simulate.run import simulate
from engine.strategies import build_plan
from tests.moved import crossing_by_formula
from tests.plans import described, job

UNIT_NS = 1_000_000
ROW = {"stages": 2, "cuts": ["6"]}
CUT = {"cut": "6", "where": "dedicated"}
JOBS: list[tuple[str, int, dict[str, Any], int, int]] = [
    ("model-parallel", 2, ROW, 26, 1),
    ("model-parallel", 4, ROW, 26, 3),
    ("model-parallel", 6, {**ROW, "schedule": "gpipe"}, 7, 2),
    ("model-parallel", 4, {**ROW, "edge_codec": "int8"}, 26, 4),
    ("hybrid", 3, CUT, 26, 1),
    ("hybrid", 3, {**CUT, "where": "beside"}, 26, 3),
    ("hybrid", 4, {**CUT, "edge_codec": "fp16"}, 9, 2),
]
"""(strategy, workers, options, samples, micro-batches); shares of samples differ."""


def plan_of(strategy: str, workers: int, options: dict[str, Any], samples: int, parts: int) -> Plan:
    training = {"steps": 1, "global_batch": samples, "micro_batches": parts}
    spec = job(strategy, workers, options, model={"name": "cnn"}, training=training)
    found = build_plan(spec, described("cnn"))
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("strategy", "workers", "options", "samples", "parts"), JOBS)
def test_what_crosses_an_edge_is_what_is_declared(
    strategy: str, workers: int, options: dict[str, Any], samples: int, parts: int, steps: int
) -> None:
    """Also in a whole job, in which the layers' exchanges go on beside it."""
    model, plan = described("cnn"), plan_of(strategy, workers, options, samples, parts)
    by_formula = Counter(
        {key: size * steps for key, size in crossing_by_formula(plan, model, workers).items()}
    )
    found = simulate(plan, model, workers=workers, steps=steps, policy=lambda: EveryStep(workers))
    edges = range(len(cut(plan, model)), len(cut(plan, model)) + len(plan.edges))
    assert Counter({key: size for key, size in found.moved.items() if key[2] in edges}) == by_formula
    said = Counter[tuple[int, int, int]]()
    for one in declared(plan, model, workers, steps=steps):
        said[one.source, one.destination, one.unit] += one.bytes
    assert said == found.moved
    assert found.moved.total() > by_formula.total() or workers == 2


def compute(plan: Plan, model_layers: list[str]) -> dict[str, Compute]:
    """A stage's forward pass takes 12 units, its backward pass 24, whatever layers it has."""
    stages = Counter(layer.place for layer in plan.layers)
    place = {layer.layer: layer.place for layer in plan.layers}
    return {
        name: Compute(12 * UNIT_NS // stages[place[name]], 24 * UNIT_NS // stages[place[name]])
        for name in model_layers
    }


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_pipeline_is_idle_as_long_as_its_stages_wait_for_one_another(schedule: str, parts: int) -> None:
    """Of S stages and M micro-batches, a step takes M + S - 1 of a micro-batch's times."""
    model = described("cnn")
    plan = plan_of("model-parallel", 2, {**ROW, "schedule": schedule}, 24, parts)
    found = simulate(
        plan, model, workers=2, steps=2, policy=lambda: EveryStep(2),
        compute=compute(plan, [layer.name for layer in model.layers]),
    )  # fmt: skip
    a_step = (parts + 1) * 36 / parts * UNIT_NS
    assert found.begun_ns[0, 1] == pytest.approx(a_step, abs=len(model.layers) * parts * 4)
    waits = {(wait.rank, wait.step) for wait in found.waited}
    assert {(0, 0), (1, 0)} <= waits, "the first stage waits for gradients, the last one for activations"


def test_a_link_between_stages_holds_both_up() -> None:
    """An activation of 12 samples takes as long as its bytes do on the link, and so does its gradient."""
    model, plan = described("cnn"), plan_of("model-parallel", 2, ROW, 12, 1)
    size = crossing_by_formula(plan, model, 2)[0, 1, len(cut(plan, model))]

    def network(*given: Any) -> VirtualNetwork:
        return VirtualNetwork(*given, rate_bps=8 * size * 1_000_000_000 / (5 * UNIT_NS))

    found = simulate(plan, model, workers=2, steps=1, policy=lambda: EveryStep(2), network=network)
    assert found.begun_ns[0, 1] == pytest.approx(2 * 5 * UNIT_NS, rel=0.05)


@pytest.mark.parametrize("rank_order", [False, True])
def test_a_device_computes_one_workers_pass_after_the_other(rank_order: bool) -> None:
    """With three workers it is busy thrice as long as with one; in rank order a slow worker 0 holds all up."""
    model, plan = described("cnn"), plan_of("hybrid", 3, CUT, 24, 1)
    there = {layer.layer for layer in plan.layers if layer.placement == "device"}
    takes = {name: Compute(6 * UNIT_NS // len(there), 0) for name in there}
    front = {layer.name: Compute(UNIT_NS, 0) for layer in model.layers if layer.name not in there}
    found = simulate(
        plan, model, workers=3, steps=1, policy=lambda: EveryStep(3), rank_order=rank_order,
        compute={**takes, **front}, slowed={0: 100.0},
    )  # fmt: skip
    began = len(front) * UNIT_NS
    device = device_party(plan, 3, 0)
    back = {each.destination: each.end_ns for each in found.passed if each.source == device}
    first = 100 * began + 6 * UNIT_NS
    if rank_order:
        assert back == {0: first, 1: first + 6 * UNIT_NS, 2: first + 12 * UNIT_NS}
    else:
        assert back == {1: began + 6 * UNIT_NS, 2: began + 12 * UNIT_NS, 0: first}
