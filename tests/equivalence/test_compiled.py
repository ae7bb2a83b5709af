"""Exact class: what `torch.compile` compiles trains as it does in a plain loop that compiles the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from tests.averaging import one_after_another
from tests.equivalence.against_plain import USER_CODE, expected, holds, spec_of
from tests.facilities import unavailable
from tests.jobs import distance, job, plan_of, reference, run, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")

CASES: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("whole", "p3", 2, {"backend": "aot_eager"}),
    ("whole", "ring-allreduce-overlap", 3, {"breaks": True}),
    ("whole", "fsdp", 2, {}),
    ("in_place", "parameter-server-deferred", 2, {"breaks": True, "backend": "aot_eager"}),
    ("in_place", "native-allreduce", 2, {}),
    ("forward", "parameter-server", 3, {"again": True, "breaks": True}),
    ("function", "p3", 2, {"backend": "aot_eager"}),
)
"""What is compiled, strategy, workers, options. Every way of compiling, and every kind of exchange. (A part of the
model, and factors: `test_a_layer_in_compiled_code_travels_as_a_gradient`.)"""
MORE: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("whole", "single", 1, {"breaks": True}),
    ("whole", "ddp", 2, {"backend": "aot_eager"}),
    ("in_place", "p3", 1, {"clamp": True, "backend": "aot_eager"}),
    ("part", "p3", 2, {"again": True, "backend": "aot_eager"}),
    ("part", "fsdp", 2, {"backend": "aot_eager"}),
)
"""In `soak`: compiling takes seconds in each worker."""


@pytest.mark.parametrize(
    ("what", "strategy", "workers", "options"),
    [*CASES, *(pytest.param(*more, marks=pytest.mark.soak) for more in MORE)],
)
def test_equals_a_plain_loop_that_compiles_the_same(
    what: str, strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    """Weights, and how often compiled code ran."""
    holds(f"compiled:{what}", strategy, workers, tmp_path, **options)
    assert expected(f"compiled:{what}", workers, **options)["calls"] >= 14


def test_compiled_code_that_reads_a_layer_from_elsewhere_waits_for_it(tmp_path: Path) -> None:
    holds("compiled:elsewhere", "p3", 2, tmp_path, backend="aot_eager")


def test_nothing_else_is_compiled_than_in_a_plain_loop(tmp_path: Path) -> None:
    holds("compiled:differentiated", "p3", 1, tmp_path, backend="aot_eager")


def test_second_derivatives_of_compiled_code_are_refused_with_the_remedy(tmp_path: Path) -> None:
    end = run(spec_of("compiled:differentiated", "single", 1, backend="aot_eager", truly=True), tmp_path).end
    assert end.status == "failed"
    assert "Leave the part that is differentiated twice uncompiled" in end.reason


def test_a_layer_in_compiled_code_travels_as_a_gradient(tmp_path: Path) -> None:
    spec = spec_of("compiled:part", "late-multiply", 2)
    plan = plan_of(spec)
    assert isinstance(plan, Plan)
    travels = {entry.layer: entry.exchange for entry in plan.layers}
    assert travels["last"] == "factors"
    assert travels["middle.outer.0"] != "factors"
    assert any("middle.outer.0" in w and "torch.compile" in w for w in plan.warnings)
    holds("compiled:part", "late-multiply", 2, tmp_path)
    assert expected("compiled:part", 2)["calls"] >= 14


def row(where: str, strategy: str, options: dict[str, Any], **training: Any) -> JobSpec:
    return job(
        model={"entrypoint": "compiled:row", "directory": str(USER_CODE), "options": {"where": where}},
        strategy={"name": strategy, "options": options},
        cluster={"workers": 2},
        training={"precision": "float64", "steps": 6, **training},
        optimizer={"name": "sgd", "learning_rate": 0.05},
    )


def test_workers_that_average_compile(tmp_path: Path) -> None:
    spec = row("part", "parameter-averaging", {"period": 2})
    exact = one_after_another(spec, lambda parameters: torch.optim.SGD(parameters, lr=0.05), period=2)
    assert distance(succeed(spec, tmp_path).state, exact) <= 1e-12


def test_a_model_is_cut_between_compiled_modules(tmp_path: Path) -> None:
    spec = row("part", "model-parallel", {"stages": 2}, micro_batches=2)
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-12


def test_a_model_that_is_compiled_as_a_whole_is_not_cut() -> None:
    with pytest.raises(UserError, match=r"compiled as a whole.*compile its modules one by one"):
        plan_of(row("whole", "model-parallel", {"stages": 2}, micro_batches=2))


def test_inductor(tmp_path: Path) -> None:
    """Machine code for forward and backward, where there is a compiler that makes it."""
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        unavailable("compiler", "there is no C++ compiler for torch.compile's inductor")
    holds("compiled:part", "p3", 1, tmp_path, backend="inductor")
