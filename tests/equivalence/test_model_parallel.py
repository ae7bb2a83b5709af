"""Exact class, stages in a row: one replica or several, both schedules, batch normalization, uneven shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.inputs.build import find_task, load_dataset
from engine.inputs.task import weight
from engine.models.build import build_model
from engine.plan.plan import Plan
from engine.telemetry.spool import batches
from tests.jobs import distance, job, reference, succeed
from tests.traffic import counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")

CASES: dict[str, tuple[int, str, dict[str, Any], dict[str, Any], float]] = {
    # workers, model, options, training, the largest difference
    "two stages": (2, "cnn", {}, {"micro_batches": 4}, 1e-12),
    "three stages, gpipe": (3, "mlp", {"schedule": "gpipe"}, {"micro_batches": 3, "global_batch": 19}, 1e-12),
    "three stages, cut where told": (3, "mlp", {"cuts": ["3", "5"]}, {"micro_batches": 4}, 1e-12),
    "two replicas": (4, "bn-cnn", {"stages": 2}, {"micro_batches": 3, "deterministic": True}, 1e-10),
    "two replicas, gpipe": (
        4,
        "mlp",
        {"stages": 2, "schedule": "gpipe"},
        {"micro_batches": 2, "global_batch": 19},
        1e-12,
    ),
    "four stages": (4, "bn-cnn", {}, {"micro_batches": 2}, 1e-10),
    "tied inside a stage": (2, "tied", {}, {"micro_batches": 2}, 1e-12),
}
SGD = {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9}}
ADAM = {"name": "adam", "learning_rate": 0.003, "options": {"weight_decay": 1e-3}}


@pytest.mark.parametrize("case", CASES)
def test_equals_one_process_on_the_same_shards(case: str, tmp_path: Path) -> None:
    workers, model, options, training, limit = CASES[case]
    spec = job(
        strategy={"name": "model-parallel", "options": options},
        cluster={"workers": workers},
        model={"name": model},
        training={"precision": "float64", "steps": 6, **training},
        evaluation={"every_epochs": None, "at_end": True},
    )
    run = succeed(spec, tmp_path)
    plan = run.launch.plan
    assert isinstance(plan, Plan)
    assert plan.pipeline is not None
    replicas = workers // plan.pipeline.stages
    assert distance(run.state, reference(spec, replicas)) <= limit
    assert list(run.state) == list(build_model(spec.model).state_dict())
    assert counted_bytes(run) == declared_bytes(run)
    losses = {b.party: b.table("steps")["loss"] for b in batches(run.launch.spool) if len(b.table("steps"))}
    last = {rank for rank in range(workers) if rank % plan.pipeline.stages == plan.pipeline.stages - 1}
    assert {rank for rank, each in losses.items() if np.isfinite(each).all()} == last, (
        "the others do not know it"
    )

    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    net = build_model(spec.model, "float64").eval()
    net.load_state_dict(run.state)
    inputs, targets = data.test.batch(np.arange(len(data.test)))
    with torch.no_grad():
        result = task(net, inputs.double(), targets)
    assert result.correct is not None
    measured = [
        (run.summary(rank)["test_accuracy"], run.summary(rank)["test_loss"]) for rank in range(workers)
    ]
    assert len(set(measured)) == 1, "every worker knows it"
    accuracy, loss = measured[0]
    assert accuracy == pytest.approx(float(result.correct) / weight(targets), abs=1e-12)
    assert loss == pytest.approx(float(result.total) / weight(targets), rel=1e-9)


@pytest.mark.parametrize(
    ("precision", "optimizer", "limit"),
    [("float32", SGD, 1e-5), ("bf16", SGD, 0.02), ("float64", ADAM, 1e-9)],
)
def test_other_precisions_adam_and_passes_without_samples(
    precision: str, optimizer: dict[str, Any], limit: float, tmp_path: Path
) -> None:
    """Steps of 8, 8 and 3 samples in four micro-batches: one of the last step's has none."""
    spec = job(
        strategy={"name": "model-parallel", "options": {}},
        cluster={"workers": 2},
        data={"name": "synthetic", "options": {"shape": [1, 8, 8], "samples": 19, "test_samples": 4}},
        optimizer=optimizer,
        training={"precision": precision, "steps": 6, "global_batch": 8, "micro_batches": 4},
    )
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= limit
