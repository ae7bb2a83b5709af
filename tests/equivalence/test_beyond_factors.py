"""Exact class, fully-connected layers that do what factors cannot express: then, and only then, gradients travel.

A loss that differentiates by itself, hooks from the beginning and later, freezing by step and by data, uses by
functions and by torch.func, parametrizations, rows that a step may lack. (`user_code/beyond_factors.py`)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from tests import plain
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import describe, distance, job, plan_of, reference, succeed
from tests.traffic import counted_bytes, declared_bytes

ALL: dict[str, Any] = {"layers": "all"}
WHOLE_FROM_THE_BEGINNING = {
    "hooked": "its parameters have hooks",
    "half_frozen": "its weight is frozen",
    "used_by_data": "the pass that it was described with did not use it",
    "normed": "of its own parameters",
    "spectral": "of its own parameters",
    "doubled": "of its own parameters",
    "twice": "differentiates what was differentiated",
    "head": "differentiates what was differentiated",
}
WHOLE_LATER = {
    "hooked_later": "its parameters have hooks",
    "again": "outside of its own call",
    "penalized": "outside of its own call",
    "transformed": "torch.func",
}


def spec_of(strategy: str, workers: int, options: dict[str, Any], model: str = "build") -> JobSpec:
    """13 samples: 7 and 6, 5 4 4; each worker's in two passes."""
    shape = {"shape": [1, 8, 8], "classes": 10, "samples": 91, "test_samples": 4}
    return job(
        model={"entrypoint": f"beyond_factors:{model}", "directory": str(USER_CODE)},
        data={"name": "synthetic", "options": shape},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": 7, "global_batch": 13, "precision": "float64", "micro_batches": 2},
    )


@cache
def expected(workers: int) -> dict[str, Tensor]:
    return reference(spec_of("single", 1, {}), workers)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("late-multiply", 1, ALL),
        ("late-multiply", 2, ALL),
        ("p3+late-multiply", 3, ALL | {"slice_size": 100}),
    ],
)
def test_equals_one_process_whatever_a_layer_does(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(spec_of(strategy, workers, options), tmp_path)
    assert distance(run.state, expected(workers)) <= 1e-12
    plan, logs = run.launch.plan, run.logs()
    assert isinstance(plan, Plan)
    by_factors = {layer.layer for layer in plan.layers if layer.exchange == "factors"}
    assert by_factors >= {"embed", "frozen_for_a_while", "frozen_by_data", "checkpointed", *WHOLE_LATER}
    for layer, why in WHOLE_LATER.items():
        assert f"warning: {layer} travels as a gradient of " in logs
        assert why in logs.partition(f"warning: {layer} ")[2].partition("\n")[0]
    if workers > 1:
        index = run.launch.model.layer("embed").index
        counted, declared = counted_bytes(run), declared_bytes(run)
        assert counted[0, 1, index] == declared[0, 1, index], "what can travel by its factors still does"


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("p3", 2, {"slice_size": 100}),
        ("parameter-server", 3, {"split_over": 100}),
        ("central-reduce", 2, {"update": "worker"}),
        ("ring-allreduce-overlap", 3, {"bucket_bytes": 4000}),
        ("tree-allreduce", 2, {"bucket_bytes": 4000}),
        ("ddp", 2, {}),
    ],
)
def test_hooks_and_freezes_at_any_time_hold_where_gradients_travel(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(spec_of(strategy, workers, options), tmp_path)
    assert distance(run.state, expected(workers)) <= 1e-12


def test_what_the_description_shows_is_planned_as_a_gradient_and_said() -> None:
    plan = plan_of(spec_of("late-multiply", 2, ALL))
    assert isinstance(plan, Plan)
    choices = {layer.layer: layer.exchange for layer in plan.layers}
    for layer, why in WHOLE_FROM_THE_BEGINNING.items():
        assert choices[layer] == "ring-allreduce"
        assert any(w.startswith(f"{layer} travels as a gradient") and why in w for w in plan.warnings), layer


def test_rows_of_what_a_loss_differentiates_for_itself_are_not_declared() -> None:
    """The model runs twice in a step; only the second time counts. A checkpointed layer runs a third time."""
    factors = {layer.name: layer.factors for layer in describe(spec_of("single", 1, {})).layers}
    for name in ("embed", "checkpointed"):
        found = factors[name]
        assert found is not None
        assert found.rows == 1


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(("strategy", "workers"), [("late-multiply", 1), ("late-multiply", 2), ("single", 1)])
def test_a_gradient_that_is_looked_at_between_two_micro_batches_is_there(
    strategy: str, workers: int, tmp_path: Path
) -> None:
    spec = job(
        model={"entrypoint": "looking:looking", "directory": str(USER_CODE)},
        strategy={"name": strategy, "options": ALL if strategy == "late-multiply" else {}},
        cluster={"workers": workers},
        training={"steps": 6, "global_batch": 13, "precision": "float64", "micro_batches": 2},
    )
    run = succeed(spec, tmp_path)
    assert distance(run.state, plain.train(spec, workers)) <= 1e-11
    if strategy == "late-multiply":
        logs = run.logs()
        for layer in ("looked_at", "taken_away"):
            assert f"warning: {layer} travels as a gradient of " in logs
        assert logs.count("looks at its gradient before that has left") == 2 * workers
        assert "warning: first travels" not in logs
