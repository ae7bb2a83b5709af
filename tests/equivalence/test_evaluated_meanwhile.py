"""Where workers drift: which model an evaluation in between is of, and a target that ends the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.inputs.build import load_dataset
from engine.models.build import build_model
from engine.telemetry import measured, spool
from tests.equivalence import test_repeated as repeating
from tests.jobs import Run, distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""
STEPS, WORKERS = 12, 3


def spec_of(folder: Path, strategy: str, options: dict[str, Any], **training: Any) -> Any:
    """One layer, which is one unit: it has one version."""
    (folder / "net.py").write_text(NET)
    return job(
        model={"entrypoint": "net:build", "directory": str(folder)},
        strategy={"name": strategy, "options": {"slice_size": 10_000, "servers": 1, **options}},
        cluster={"workers": WORKERS},
        training={"precision": "float64", "steps": STEPS, "global_batch": 48, **training},
        evaluation={"every_epochs": 0.1, "at_end": True},  # 1,437 samples: every third step
        optimizer={
            "name": "sgd",
            "learning_rate": repeating.RATE,
            "options": {"momentum": repeating.MOMENTUM},
        },
        telemetry={"updates": True},
    )


def said(run: Run) -> dict[int, dict[str, float]]:
    """By step: what was recorded of evaluations. The one at the end is everybody's, and all say the same of it."""
    found: dict[int, dict[str, float]] = {}
    for batch in spool.batches(run.launch.spool):
        for row in batch.table("metrics"):
            name = batch.metrics[row["name"]]
            if name.startswith(("test_", "measured_")):
                at = found.setdefault(int(row["step"]), {})
                assert at.setdefault(name, float(row["value"])) == row["value"]
    return found


def at_version(run: Run, version: int) -> dict[str, Tensor]:
    """The model that so many updates have made, by the servers' record."""
    record = run.updates()
    assert len(run.units) == 1
    assert version <= record["version"].max()
    # Later rows say on which versions other gradients were computed; without them these are not applied.
    return repeating.repeated(run, record[record["version"] <= version])


def measured_here(run: Run, state: dict[str, Tensor]) -> tuple[float, float]:
    model = build_model(run.launch.job.model, "float64")
    model.load_state_dict(state)
    test = load_dataset(run.launch.job.data).test
    inputs, targets = test.batch(np.arange(len(test)))
    with torch.no_grad():
        logits = model(inputs.double())
    return float((logits.argmax(1) == targets).double().mean()), float(
        functional.cross_entropy(logits, targets)
    )


@pytest.mark.parametrize(
    ("strategy", "options"), [("softsync", {"contributions": 2}), ("async-sgd", {"own_writes": False})]
)
def test_an_evaluation_says_which_model_it_is_of(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Worker 0's own at the version that is said, in between; what all end with, at the end."""
    run = succeed(spec_of(tmp_path, strategy, options), tmp_path / "run")
    found, last = said(run), int(run.updates()["version"].max())
    between = sorted(found)[:-1]
    assert between == [3, 6, 9]
    for step in between:
        assert found[step][measured.COMMON] == 0
        version = int(found[step][measured.LEAST])
        assert found[step][measured.MOST] == version
        accuracy, loss = measured_here(run, at_version(run, version))
        assert found[step]["test_accuracy"] == accuracy
        assert found[step]["test_loss"] == pytest.approx(loss, rel=1e-12)
    end = found[STEPS]
    assert (end[measured.COMMON], end[measured.LEAST], end[measured.MOST]) == (1, last, last)
    assert (end["test_accuracy"], {run.summary(r)["test_accuracy"] for r in range(WORKERS)}) == (
        measured_here(run, run.state)[0],
        {end["test_accuracy"]},
    )


@pytest.mark.parametrize(
    ("strategy", "options"),
    [("softsync", {"contributions": 2}), ("bounded-staleness", {"bound": 1, "apply": "clock"})],
)
def test_a_target_ends_the_job_with_the_model_that_reached_it(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, strategy, options, target_accuracy=0.5, steps=400)
    run = succeed(spec, tmp_path / "run")
    ends = [(s["target_step"], s["test_accuracy"], s["test_loss"]) for s in map(run.summary, range(WORKERS))]
    assert len(set(ends)) == 1, "the workers say the same of the job"
    step, accuracy, loss = ends[0]
    assert accuracy >= 0.5
    assert run.summary()["steps"] == step < 400
    found = said(run)
    assert max(found) == step, "nothing was measured after it"
    assert all(each["test_accuracy"] < 0.5 for at, each in found.items() if at < step)
    assert measured_here(run, run.state) == (accuracy, pytest.approx(loss, rel=1e-12))
    assert found[step][measured.COMMON] == 0
    assert distance(run.state, at_version(run, int(found[step][measured.MOST]))) <= 1e-12


def test_without_a_server_a_models_version_counts_everybodys_updates(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    spec = job(
        model={"entrypoint": "net:build", "directory": str(tmp_path)},
        strategy={"name": "decentralized-async", "options": {}},
        cluster={"workers": 2},
        training={"steps": STEPS, "global_batch": 48},
        evaluation={"every_epochs": 0.1, "at_end": True},
    )
    found = said(succeed(spec, tmp_path / "run"))
    for step in (3, 6, 9):
        own = found[step]
        assert own[measured.COMMON] == 0
        assert step <= own[measured.LEAST] <= own[measured.MOST] <= step + STEPS
    end = found[STEPS]
    assert (end[measured.COMMON], end[measured.LEAST], end[measured.MOST]) == (1, 2 * STEPS, 2 * STEPS)
