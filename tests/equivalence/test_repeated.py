"""A run in which workers drifted is repeated in one process, from what its servers have recorded: plain PyTorch, which
computes every gradient on the version that it was computed on, and adds and applies them in the order of the record."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.inputs.task import weight
from engine.models.build import build_model
from engine.plan.units import Unit
from engine.plan.updates import OptimizerSpec
from engine.runtime.worker import seed_everything
from tests.jobs import Run, distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.Tanh(), nn.Dropout(0.3), nn.Linear(30, 10))
"""
RATE, MOMENTUM, GAMMA = 0.05, 0.9, 0.7
MOMENTUM_SGD = {"name": "sgd", "learning_rate": RATE, "options": {"momentum": MOMENTUM}}
DECAYED = {"name": "sgd", "learning_rate": RATE, "options": {"momentum": MOMENTUM, "weight_decay": 0.1}}
ADAM = {"name": "adam", "learning_rate": 0.01, "options": {"weight_decay": 0.1}}
"""Under these a divided rate is not a divided gradient."""
CLASSES: dict[str, Any] = {"sgd": optim.SGD, "adam": optim.Adam}


@pytest.mark.parametrize(
    ("strategy", "workers", "options", "optimizer"),
    [
        ("async-sgd", 3, {}, MOMENTUM_SGD),
        ("async-sgd", 3, {"own_writes": False}, MOMENTUM_SGD),
        ("staleness-aware", 3, {"own_writes": False}, ADAM),
        ("staleness-aware", 3, {"where": "dedicated", "servers": 2}, DECAYED),
        ("softsync", 3, {"contributions": 2}, MOMENTUM_SGD),
        ("bounded-staleness", 3, {"bound": 1}, MOMENTUM_SGD),
    ],
)
@pytest.mark.parametrize("schedule", [None, "exponential"])
def test_the_record_says_enough_to_repeat_the_run(
    strategy: str,
    workers: int,
    options: dict[str, Any],
    optimizer: dict[str, Any],
    schedule: str | None,
    tmp_path: Path,
) -> None:
    (tmp_path / "net.py").write_text(NET)
    spec = job(
        model={"entrypoint": "net:build", "directory": str(tmp_path)},
        strategy={"name": strategy, "options": {"slice_size": 100, **options}},
        cluster={"workers": workers},
        training={"precision": "float64", "steps": 12},
        optimizer=optimizer,
        telemetry={"updates": True},
        **({} if schedule is None else {"schedule": {"name": schedule, "options": {"gamma": GAMMA}}}),
    )
    run = succeed(spec, tmp_path / "run")
    record = run.updates()
    assert len(record) == 12 * workers * len(run.units)
    stale = record["version"].astype(int) - 1 - record["read"]
    assert (record["rate"] == (1 / np.maximum(1, stale) if strategy == "staleness-aware" else 1)).all()
    # All compute their first step on version 0. More than one update late: then a rate is divided.
    assert (stale > (1 if strategy == "staleness-aware" else 0)).any()
    assert distance(run.state, repeated(run, record)) <= (1e-9 if optimizer is ADAM else 1e-12)


def repeated(run: Run, record: np.ndarray) -> dict[str, Tensor]:
    """The state_dict that the record leads to."""
    training, workers = run.launch.job.training, run.launch.job.cluster.workers
    seed_everything(training.seed, False)
    model = build_model(run.launch.job.model, training.precision)
    passes = Passes(run, model, workers)
    spec = run.launch.job.optimizer
    units = {unit.index: Versions(unit, dict(model.named_parameters()), spec) for unit in run.units}
    reads: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    due: dict[int, list[list[np.void]]] = defaultdict(list)
    for row in record:
        reads[int(row["worker"]), int(row["step"])][int(row["unit"])] = int(row["read"])
        updates = due[int(row["unit"])]
        if row["version"] > len(updates):
            updates.append([])
        updates[-1].append(row)
    gradients: dict[tuple[int, int], dict[str, Tensor]] = {}
    steps = [0] * workers
    decay = GAMMA if run.launch.job.schedule.name == "exponential" else 1.0
    while any(due.values()):
        moved = False
        for rank in range(workers):
            wanted = reads.get((rank, steps[rank]))
            if wanted and all(version < len(units[index].values) for index, version in wanted.items()):
                for index, version in wanted.items():
                    units[index].load(version)
                gradients[rank, steps[rank]] = passes.gradients(rank, steps[rank])
                steps[rank] += 1
                moved = True
        for index, updates in due.items():
            while updates and all((int(r["worker"]), int(r["step"])) in gradients for r in updates[0]):
                rows = updates.pop(0)
                late = max(int(r["step"]) for r in rows)
                parts = [gradients[int(r["worker"]), int(r["step"])] for r in rows]
                (factor,) = {float(r["rate"]) for r in rows}
                units[index].update(parts, rate=spec.learning_rate * decay**late * factor)
                moved = True
        assert moved, "the record contradicts itself"
    for unit in units.values():
        unit.load(len(unit.values) - 1)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


class Versions:
    """One unit's parameters in all their versions, and its optimizer."""

    def __init__(self, unit: Unit, parameters: dict[str, nn.Parameter], spec: OptimizerSpec) -> None:
        self.unit, self.parameters = unit, parameters
        self.now = [nn.Parameter(self._part(s.parameter, s.start, s.stop).clone()) for s in unit.segments]
        self.values = [[p.detach().clone() for p in self.now]]
        self.optimizer = CLASSES[spec.name](self.now, lr=spec.learning_rate, **spec.options)

    def _part(self, name: str, start: int, stop: int) -> Tensor:
        return self.parameters[name].detach().view(-1)[start:stop]

    def load(self, version: int) -> None:
        for segment, value in zip(self.unit.segments, self.values[version], strict=True):
            self._part(segment.parameter, segment.start, segment.stop).copy_(value)

    def update(self, parts: list[dict[str, Tensor]], *, rate: float) -> None:
        self.optimizer.param_groups[0]["lr"] = rate
        for parameter, segment in zip(self.now, self.unit.segments, strict=True):
            parameter.grad = torch.zeros_like(parameter)
            for gradients in parts:
                parameter.grad += gradients[segment.parameter].view(-1)[segment.start : segment.stop]
        self.optimizer.step()
        self.values.append([p.detach().clone() for p in self.now])


class Passes:
    """Every worker's steps, with its own random numbers."""

    def __init__(self, run: Run, model: nn.Module, workers: int) -> None:
        job = run.launch.job
        self.training, self.model, self.workers = job.training, model, workers
        self.data, self.task = load_dataset(job.data).train, find_task(job.model, job.data)
        self.random = {}
        for rank in range(workers):
            seed_everything(self.training.seed + 1 + rank, False)
            self.random[rank] = torch.get_rng_state()

    def gradients(self, rank: int, step: int) -> dict[str, Tensor]:
        indices = global_batch_at(step, len(self.data), self.training.global_batch, self.training.seed)
        whole = weight(self.data.batch(indices)[1])
        inputs, targets = self.data.batch(shard(indices, rank, self.workers))
        assert isinstance(inputs, Tensor)
        torch.set_rng_state(self.random[rank])
        loss = self.task(self.model, inputs.double(), targets).total / whole
        self.model.zero_grad()
        loss.backward()
        self.random[rank] = torch.get_rng_state()
        return {n: p.grad.detach().clone() for n, p in self.model.named_parameters() if p.grad is not None}
