"""Exact class, parameters of several units that have a gradient in some steps, on some workers, or never.

What no worker has a gradient of is left alone, decay and momentum included; of what some have, the sum counts. Every
strategy whose layers combine has a block of its own in one job, cut into units of a fraction of a layer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, optim

from engine.inputs.build import load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.plan.job import JobSpec
from engine.plan.plan import Plan
from tests.averaging import one_after_another
from tests.equivalence.against_plain import USER_CODE
from tests.jobs import Run, distance, job, reference, succeed

MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "options": {"momentum": 0.9, "weight_decay": 0.01}}
BLOCKS: list[tuple[str, dict[str, Any]]] = [
    ("p3", {"slice_size": 30}),
    ("parameter-server", {"split_over": 30}),
    ("parameter-server-deferred", {"split_over": 30}),
    ("central-reduce", {}),
    ("central-reduce", {"update": "worker"}),
    ("ring-allreduce", {"bucket_bytes": 240}),
    ("ring-allreduce-overlap", {"bucket_bytes": 240}),
    ("tree-allreduce", {"bucket_bytes": 240}),
    ("tree-allreduce", {"bucket_bytes": 240, "algorithm": "recursive-halving-doubling"}),
    ("native-allreduce", {"bucket_bytes": 240}),
    ("late-multiply", {"layers": "all"}),
]


def spec_of(workers: int, strategy: str, options: dict[str, Any], **changes: Any) -> JobSpec:
    """7 samples: 4 and 3, or 3, 2 and 2, and as many signs of what a first sample sums up to."""
    shape = {"shape": [1, 8, 8], "classes": 10, "samples": 56, "test_samples": 4}
    depth = len(changes["overrides"]) if "overrides" in changes else 2
    return job(
        model={
            "entrypoint": "absent:build",
            "directory": str(USER_CODE),
            "options": {"depth": changes.pop("depth", depth)},
        },
        data={"name": "synthetic", "options": shape},
        strategy={"name": strategy, "options": options},
        cluster={"workers": workers},
        training={"steps": 6, "global_batch": 7, "precision": "float64"},
        **{"optimizer": MOMENTUM, **changes},
    )


def in_blocks(servers: dict[str, Any]) -> list[dict[str, Any]]:
    """One override for each block, with as many servers as the job has."""
    served = ("p3", "parameter-server", "parameter-server-deferred")
    return [
        {
            "layers": f"blocks.{i}.*",
            "strategy": name,
            "options": options | (servers if name in served else {}),
        }
        for i, (name, options) in enumerate(BLOCKS)
    ]


@cache
def expected(workers: int, depth: int) -> dict[str, Tensor]:
    return reference(spec_of(1, "single", {}, depth=depth), workers)


def assert_left_alone(run: Run, before: dict[str, Tensor]) -> None:
    """What nobody ever used is not even decayed."""
    untouched = [name for name in before if ".never." in name]
    assert untouched
    for name in untouched:
        assert torch.equal(run.state[name], before[name])


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("workers", [2, 3])
def test_every_exchange_leaves_alone_what_nobody_used(workers: int, tmp_path: Path) -> None:
    servers = {"servers": 1}
    spec = spec_of(workers, "p3", servers, overrides=in_blocks(servers))
    run = succeed(spec, tmp_path)
    plan = run.launch.plan
    assert isinstance(plan, Plan)
    assert all(layer.overrides for layer in plan.layers)
    state = run.state
    right = expected(workers, len(BLOCKS))
    for index, (name, _) in enumerate(BLOCKS):
        mine = [key for key in right if key.startswith(f"blocks.{index}.")]
        far = distance({key: state[key] for key in mine}, {key: right[key] for key in mine})
        assert far <= 1e-12, name
    assert_left_alone(run, expected(1, len(BLOCKS)))


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("single", 1, {}),
        ("ring-allreduce", 2, {"bucket_bytes": 240}),
        ("ddp", 2, {}),
    ],
)
def test_strategies_alone_do_so_too(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    run = succeed(spec_of(workers, strategy, options), tmp_path)
    assert distance(run.state, expected(workers, 2)) <= 1e-12


@pytest.mark.usefixtures("gang_lane")
def test_averages_leave_alone_what_nobody_used(tmp_path: Path) -> None:
    """With the optimizer's state, of which some workers have none, and of some layers nobody: they start as if new."""
    options = {"period": 2, "optimizer_state": True, "exchange": "ring-allreduce", "bucket_bytes": 240}
    dampened = {**MOMENTUM, "options": {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}}
    spec = spec_of(2, "parameter-averaging", options, optimizer=dampened)
    run = succeed(spec, tmp_path)

    def make(parameters: Any) -> optim.Optimizer:
        return optim.SGD(parameters, lr=0.05, momentum=0.9, dampening=0.5, weight_decay=0.01)

    assert distance(run.state, one_after_another(spec, make, period=2, state=True)) <= 1e-12


def test_some_workers_use_a_layer_and_others_do_not() -> None:
    """Otherwise the cases above would prove nothing."""
    spec = spec_of(1, "single", {})
    train, training = load_dataset(spec.data).train, spec.training
    users = set()
    for step in range(training.steps or 0):
        indices = global_batch_at(step, len(train), training.global_batch, training.seed)
        firsts = [train.batch(shard(indices, rank, 3))[0][0] for rank in range(3)]
        users.add(sum(bool(first.flatten()[:60].sum() > 0) for first in firsts))
    assert users & {1, 2}
    assert len(users) > 1
