"""Exact class, fully-connected layers by factors: of two, three and one dimensions, used eight times, without a bias,
with a frozen one, in batches and micro-batches of uneven sizes, some of them empty. The same runs show that declared
bytes are counted bytes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from engine.runtime.worker import seed_everything
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import describe, distance, job, reference, succeed
from tests.traffic import counted_bytes, declared_bytes

STRATEGIES: dict[str, dict[str, Any]] = {
    "late-multiply": {"bucket_bytes": 500, "layers": "all"},
    "p3+late-multiply": {"slice_size": 50, "layers": "all"},
}
ADAM = {"name": "adam", "learning_rate": 0.003, "options": {"weight_decay": 1e-3}}
STRONG = {"name": "sgd", "learning_rate": 500, "options": {"momentum": 0.9}}
"""For a loss that hardly depends on the parameters."""
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "float32": ({}, 1e-5),
    "float64": ({"training": {"precision": "float64"}}, 1e-12),
    "adam": ({"training": {"precision": "float64"}, "optimizer": ADAM}, 1e-9),
}
FEW = {
    *(("late-multiply", "float32", workers) for workers in (2, 3, 4)),
    ("p3+late-multiply", "float64", 3),
    ("p3+late-multiply", "float64", 4),
    ("p3+late-multiply", "adam", 2),
}
"""In the suite: both strategies with every number of workers, and every case."""
BY_FACTORS = {"embed", "inward", "recur", "ahead", "frozen", "head"}


def spec_of(strategy: str, workers: int, model: str = "model", **changes: Any) -> JobSpec:
    """26 samples: 13 and 13, 9 9 8, 7 7 6 6; each worker's in two passes."""
    changes["training"] = {"micro_batches": 2, **changes.get("training", {})}
    options = {**STRATEGIES.get(strategy, {}), **changes.pop("options", {})}
    return job(
        model={"entrypoint": f"fully_connected:{model}", "directory": str(USER_CODE)},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        **changes,
    )


@cache
def expected(case: str, workers: int) -> dict[str, Tensor]:
    return reference(spec_of("single", 1, **CASES[case][0]), workers)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "case", "workers"),
    [
        pytest.param(
            strategy, case, workers, marks=[] if (strategy, case, workers) in FEW else [pytest.mark.soak]
        )
        for strategy, case in [("late-multiply", "float32"), *(("p3+late-multiply", case) for case in CASES)]
        for workers in (2, 3, 4)
    ],
)
def test_equals_one_process_on_the_same_shards(
    strategy: str, case: str, workers: int, tmp_path: Path
) -> None:
    found = succeed(spec_of(strategy, workers, **CASES[case][0]), tmp_path)
    plan = found.launch.plan
    assert isinstance(plan, Plan)
    assert {layer.layer for layer in plan.layers if layer.exchange == "factors"} == BY_FACTORS
    state = found.state
    assert distance(state, expected(case, workers)) <= CASES[case][1]
    assert distance(state, expected(case, 1)) <= CASES[case][1]
    assert counted_bytes(found) == declared_bytes(found)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("case", ["autocast", "half"])
def test_sixteen_bits_halve_the_factors(case: str, tmp_path: Path) -> None:
    """Under autocast factors are bfloat16 and travel as they are; a codec rounds them, also where derivatives are below
    what half precision can tell from zero. At worst every gradient is rounded otherwise once: 2^-8 of the distance
    travelled. (The reference sums the gradients of a layer's uses as we do, in float32: in bfloat16 each sum would be
    rounded once more.)"""
    if case == "autocast":
        spec = spec_of("late-multiply", 2, training={"precision": "bf16"})
    else:
        spec = spec_of("late-multiply", 2, "faint", options={"codec": "fp16"}, optimizer=STRONG)
    found = succeed(spec, tmp_path)
    counted = counted_bytes(found)
    assert counted == declared_bytes(found)
    described = found.launch.model
    factors = described.layer("recur").factors
    assert factors is not None
    assert (factors.rows, factors.inputs, factors.outputs) == (8, 24, 24)
    assert counted[0, 1, described.layer("recur").index] == 10 * 13 * 8 * (24 + 24) * 2

    seed_everything(spec.training.seed, False)
    start = build_model(spec.model).state_dict()
    for name, right in reference(spec, 2, autocast_cache=False).items():
        away = (found.state[name] - right).norm()
        assert away <= 2.0**-8 * (right - start[name]).norm(), name


@pytest.mark.usefixtures("gang_lane")
def test_passes_and_workers_without_samples_have_no_rows(tmp_path: Path) -> None:
    """Every other step has three samples only: three of four workers have one, in one of their two passes."""
    data = {"name": "synthetic", "options": {"shape": [1, 8, 8], "classes": 10, "samples": 11}}
    changes = {"data": data, "training": {"precision": "float64", "global_batch": 8}}
    found = succeed(spec_of("late-multiply", 4, **changes), tmp_path)
    assert distance(found.state, reference(spec_of("single", 1, **changes), 1)) <= 1e-12


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
def test_deterministic_jobs_repeat_bitwise(tmp_path: Path) -> None:
    spec = spec_of("p3+late-multiply", 3, training={"deterministic": True})
    first, second = (succeed(spec, tmp_path / name).state for name in ("first", "second"))
    assert distance(first, second) == 0


@pytest.mark.usefixtures("gang_lane")
def test_a_weight_that_is_also_used_elsewhere_travels_as_a_gradient(tmp_path: Path) -> None:
    """Where the description shows it, such a layer has no factors; here it does not."""
    changes = {"training": {"precision": "float64"}}
    found = succeed(spec_of("late-multiply", 2, "elsewhere", **changes), tmp_path)
    assert distance(found.state, reference(spec_of("single", 1, "elsewhere", **changes), 2)) <= 1e-12
    assert "first travels as a gradient of 8320 bytes to every other worker" in found.logs()
    assert "its parameters are also used outside of its own call" in found.logs()
    index = found.launch.model.layer("first").index
    assert counted_bytes(found)[0, 1, index] == 10 * 8320


def test_what_is_used_elsewhere_or_differently_has_no_factors() -> None:
    """A convolution; a layer whose rows do not grow with the batch; a tied weight; a projection that nobody calls."""
    layers = {layer.name: layer.factors for layer in describe(spec_of("single", 1)).layers}
    assert {name for name, factors in layers.items() if factors is not None} == BY_FACTORS
    assert {name for name, factors in layers.items() if factors is None} == {"", "convolution", "begin"}
    tied = {x.name: x.factors for x in describe(job(model={"name": "tied"})).layers}
    assert tied["encode"] is None
    assert tied["middle"] is not None
    assert tied["middle"].rows == 2
    attention = {x.name: x.factors for x in describe(job(model={"name": "attention"})).layers}
    assert {name for name, factors in attention.items() if factors} == {"embed", "classify"}
