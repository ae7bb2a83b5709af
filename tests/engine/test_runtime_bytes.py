"""Bytes on the wire are what the plan declares, exactly; half precision halves them within its error ceiling.

(Full precision: tests/equivalence/test_synchronous_strategies.py asserts the same of every run.)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from engine.runtime.worker import seed_everything
from engine.simulate.declared import declared
from engine.telemetry import spool
from tests.jobs import describe, job, plan_of, reference, succeed
from tests.traffic import counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")

STRATEGIES: dict[str, dict[str, Any]] = {
    "central-reduce": {},
    "parameter-server": {"split_over": 1000},
    "parameter-server-deferred": {"split_over": 1000},
    "parameter-slicing": {"slice_size": 400},
    "p3": {"slice_size": 400},
    "ring-allreduce": {"bucket_bytes": 4000},
    "ring-allreduce-overlap": {"bucket_bytes": 4000},
    "tree-allreduce": {"bucket_bytes": 4000},
}
HALF: list[tuple[str, int, dict[str, Any]]] = [(name, 3, {}) for name in STRATEGIES] + [
    ("parameter-server", 2, {"update": "worker"}),
    ("p3", 4, {"where": "dedicated", "servers": 2}),
    ("ring-allreduce-overlap", 2, {}),
    ("ring-allreduce-overlap", 4, {}),
    ("tree-allreduce", 3, {"algorithm": "recursive-halving-doubling"}),
    ("tree-allreduce", 4, {"algorithm": "recursive-halving-doubling"}),
    ("p3", 3, {"codec": "bf16"}),
    ("parameter-server", 2, {"codec": "bf16", "update": "worker"}),
    ("ring-allreduce-overlap", 3, {"codec": "bf16"}),
]
HALF_ULP = {"fp16": 2.0**-11, "bf16": 2.0**-8}
"""By codec: the largest relative rounding error of a number."""


def half(strategy: str, workers: int, changes: dict[str, Any]) -> JobSpec:
    options = {**STRATEGIES.get(strategy, {}), **changes}
    if strategy != "single":
        options.setdefault("codec", "fp16")
    return job(strategy={"name": strategy, "options": options}, cluster={"workers": workers})


@cache
def exact(workers: int) -> dict[str, Tensor]:
    return reference(half("single", 1, {}), workers)


@cache
def ceilings(workers: int, codec: str) -> dict[str, float]:
    """How far half precision may lead each tensor astray, as a norm.

    A rank's contribution is rounded at most `workers` times on its way (once per hop of a ring or tree; twice where
    servers answer with sums), each time by at most HALF_ULP of its size, and moves the parameters by no more than
    rate / (1 - momentum) times itself. A factor of 2 for later gradients being taken at slightly other points.
    """
    spec = half("single", 1, {})
    training, optimizer = spec.training, spec.optimizer
    seed_everything(training.seed, False)
    train, model = load_dataset(spec.data).train, build_model(spec.model)
    sgd = torch.optim.SGD(model.parameters(), lr=optimizer.learning_rate, **optimizer.options)
    size = {name: 0.0 for name, _ in model.named_parameters()}
    for step in range(training.steps or 0):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for rank in range(workers):
            inputs, targets = train.batch(shard(indices, rank, workers))
            loss = functional.cross_entropy(model(inputs), targets, reduction="sum") / len(indices)
            model.zero_grad()
            loss.backward()
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None
                total[name] += parameter.grad
                size[name] += float(parameter.grad.norm())
        for name, parameter in model.named_parameters():
            parameter.grad = total[name]
        sgd.step()
    reach = optimizer.learning_rate / (1 - optimizer.options["momentum"])
    return {name: 2 * workers * HALF_ULP[codec] * reach * norm for name, norm in size.items()}


@pytest.mark.parametrize(("strategy", "workers", "changes"), HALF)
def test_half_precision_halves_the_bytes_within_its_ceiling(
    strategy: str, workers: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(half(strategy, workers, changes), tmp_path)
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    recorded = list(spool.batches(run.launch.spool))
    assert recorded
    assert not any(len(batch.table("staleness")) for batch in recorded), "in lockstep there is none to record"

    plan = run.launch.plan
    assert isinstance(plan, Plan)
    whole = sum(p.count for layer in run.launch.model.layers for p in layer.parameters)
    if plan.servers.count == 0:
        per_step = 2 * (workers - 1) * whole * 2
    else:
        back = 4 if plan.layers[0].update == "server" else 2  # parameters come back in full precision
        links = workers if plan.servers.where == "dedicated" else workers - 1
        per_step = links * whole * (2 + back)
    assert sum(counted.values()) == per_step * run.summary()["steps"]

    state, limits = run.state, ceilings(workers, changes.get("codec", "fp16"))
    for name, right in exact(workers).items():
        assert 0 < (state[name] - right).norm() <= limits[name], name


ALEXNET = [
    (2, "beside", "train", 465.1),
    (2, "dedicated", "rehearse", 930.3),
    (4, "dedicated", "rehearse", 1860.5),
    (4, "beside", "rehearse", 1395.4),
]
"""Papers 000, Table 2: naive data parallelism of AlexNet, MiB per iteration. A rehearsal moves the same bytes."""


def alexnet(workers: int, where: str, fidelity: str) -> JobSpec:
    return job(
        model={"name": "alexnet"},
        data={"name": "synthetic", "options": {"shape": [3, 227, 227], "classes": 1000, "samples": 8}},
        strategy={"name": "central-reduce", "options": {"where": where}},
        cluster={"workers": workers},
        optimizer={"name": "sgd", "learning_rate": 0.001},
        training={"steps": 1, "global_batch": workers},
        fidelity=fidelity,
    )


@pytest.mark.parametrize(("workers", "where", "fidelity", "mebibytes"), ALEXNET)
def test_alexnet_declares_what_the_paper_counts(
    workers: int, where: str, fidelity: str, mebibytes: float
) -> None:
    spec = alexnet(workers, where, fidelity)
    moved = declared(plan_of(spec), describe(spec), workers, spec.network.hosts)
    assert round(sum(transfer.bytes for transfer in moved if transfer.wire) / 2**20, 1) == mebibytes


@pytest.mark.parametrize(
    ("workers", "where", "fidelity", "mebibytes"),
    [pytest.param(*row, marks=[] if row[2] == "train" else [pytest.mark.soak]) for row in ALEXNET],
)
def test_alexnet_moves_what_the_paper_counts(
    workers: int, where: str, fidelity: str, mebibytes: float, tmp_path: Path
) -> None:
    """More workers, and a dedicated server, in `soak`: two copies of 244 MB for each party take seconds."""
    run = succeed(alexnet(workers, where, fidelity), tmp_path)
    (run.launch.result / "model.pt").unlink(missing_ok=True)  # 244 MB
    counted = counted_bytes(run)
    assert counted == declared_bytes(run)
    assert round(sum(counted.values()) / 2**20, 1) == mebibytes
