"""Workers that send their updates to one another and wait for nobody: with one of them it is what one process does,
bit for bit but for rounding; where gradients do not depend on parameters, with any number; elsewhere it learns as well.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import UserError
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.runtime.worker import seed_everything
from engine.telemetry import spool
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import Run, distance, job, plan_of, reference, succeed
from tests.traffic import assert_declared

MOMENTUM = {"name": "sgd", "learning_rate": 0.002, "options": {"momentum": 0.9}}
ADAM = {"name": "adam", "learning_rate": 0.003, "options": {"weight_decay": 1e-3}}
SLOW = {"stragglers": [{"worker": 1, "factor": 20}]}
THRESHOLD = 2.0**-8


def spec_of(workers: int, options: dict[str, Any], **changes: Any) -> JobSpec:
    training = {"precision": "float64", **changes.pop("training", {})}
    strategy = {"name": "decentralized-async", "options": options}
    return job(strategy=strategy, cluster={"workers": workers}, training=training, **changes)


def straight(workers: int, options: dict[str, Any], folder: Path, **changes: Any) -> JobSpec:
    """Gradients do not depend on parameters, and momentum adds up."""
    model = {
        "entrypoint": "linear_loss:model",
        "directory": str(USER_CODE),
        "options": {"folder": str(folder)},
    }
    evaluation = {"every_epochs": None, "at_end": True}
    return spec_of(workers, options, model=model, evaluation=evaluation, optimizer=MOMENTUM, **changes)


def held(run: Run, folder: Path) -> list[dict[str, Tensor]]:
    """What each worker ends with, alike to rounding."""
    workers = run.launch.job.cluster.workers
    found: list[dict[str, Tensor]] = [
        torch.load(folder / f"worker {rank}.pt", weights_only=True) for rank in range(workers)
    ]
    assert all(distance(one, found[0]) <= 1e-12 for one in found)
    assert distance(run.state, found[0]) <= 1e-12
    return found


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_with_one_worker_it_is_one_process(optimizer: dict[str, Any], tmp_path: Path) -> None:
    spec = spec_of(1, {"codec": "fp32"}, optimizer=optimizer)
    assert distance(succeed(spec, tmp_path).state, reference(spec, 1)) <= 1e-11


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("faults", [{}, SLOW], ids=["alike", "one is slow"])
def test_nothing_is_lost_or_added_twice(faults: dict[str, Any], tmp_path: Path) -> None:
    """The sum of all updates, whenever they come, is that of synchronous SGD with momentum."""
    changes = {"faults": faults} if faults else {}
    spec = straight(3, {"codec": "fp32"}, tmp_path, **changes)
    run = succeed(spec, tmp_path)
    held(run, tmp_path)
    assert distance(run.state, reference(straight(3, {"codec": "fp32"}, Path()), 3)) <= 1e-12
    assert_declared(run)
    counted: Counter[int] = Counter()
    for batch in spool.batches(run.launch.spool):
        for row in batch.table("staleness"):
            counted[int(row["worker"])] += int(row["count"])
    # Ten updates of each unit, each of which two others have taken.
    assert counted == dict.fromkeys(range(3), 10 * len(run.units) * 2)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("entropy_coding", [True, False])
def test_every_worker_ends_with_the_sum_of_all_that_was_sent(entropy_coding: bool, tmp_path: Path) -> None:
    """Each element has moved by whole thresholds, everywhere by as many; what is missing waits on the workers."""
    options = {"codec_options": {"threshold": THRESHOLD}, "entropy_coding": entropy_coding}
    run = succeed(straight(3, options, tmp_path, training={"steps": 12}), tmp_path)
    assert all(layer.entropy_coding is entropy_coding for layer in run.plan.layers)
    assert_declared(run)
    exact = straight(3, {}, Path(), training={"steps": 12})
    seed_everything(exact.training.seed, False)
    begun = {name: p.detach().clone() for name, p in build_model(exact.model, "float64").named_parameters()}
    ended = reference(exact, 3)
    final, moved = held(run, tmp_path)[0], 0
    for name, value in final.items():
        steps = (value - begun[name]) / THRESHOLD
        assert torch.allclose(steps, steps.round(), rtol=0, atol=1e-9)
        moved += int(steps.round().count_nonzero())
        # Of each of the three less than a threshold is left, where no step is as large as that.
        assert float((value - ended[name]).abs().max()) < 3 * THRESHOLD
    assert moved > 100


@pytest.mark.usefixtures("gang_lane")
def test_it_learns_as_synchronous_sgd_does(tmp_path: Path) -> None:
    training = {"steps": 150, "global_batch": 60, "precision": "float32"}
    common: dict[str, Any] = {
        "model": {"name": "mlp"},
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "evaluation": {"every_epochs": None, "at_end": True},
    }
    run = succeed(spec_of(3, {}, training=training, **common), tmp_path / "it")
    ring = job(strategy={"name": "ring-allreduce"}, cluster={"workers": 3}, training=training, **common)
    accuracy = run.summary()["test_accuracy"]
    synchronous = succeed(ring, tmp_path / "ring").summary()["test_accuracy"]
    assert accuracy > synchronous - 0.05 > 0.8
    assert_declared(run)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"training": {"deterministic": True}}, "what is added when depends on how fast"),
    ({"codec": "dgc"}, {}, "momentum of each worker's own gradients"),
    (
        {},
        {"overrides": [{"layers": "*", "codec": "int8", "entropy_coding": True}]},
        "something of every element",
    ),
    (
        {},
        {"overrides": [{"layers": "*", "exchange": "ring-allreduce"}]},
        "takes others' updates as they come",
    ),
    ({}, {"overrides": [{"layers": "*", "strategy": "p3"}]}, "chosen for the job"),
]


@pytest.mark.parametrize(("options", "changes", "words"), REFUSED)
def test_what_cannot_be_is_refused(options: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        plan_of(spec_of(3, options, **changes))


def test_a_norm_and_an_optimizer_of_whole_layers_are_each_workers_own() -> None:
    muon = {"name": "muon", "learning_rate": 0.1}
    plan = plan_of(spec_of(3, {}, training={"clip_norm": 1.0}, optimizer=muon, model={"name": "mlp"}))
    assert "training.clip_norm holds for each worker's own gradients." in plan.warnings
