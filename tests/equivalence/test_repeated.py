"""A run in which workers drifted is repeated in one process, from what its servers and workers have recorded: plain
PyTorch, which computes every gradient on the version that it was computed on, with the random states that its step
began with, and adds and applies them in the order of the record."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim

from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.inputs.task import weight
from engine.models.build import build_model
from engine.plan.units import Unit
from engine.plan.updates import OptimizerSpec
from engine.runtime.worker import seed_everything
from engine.state.random_record import ROW, digest, read
from tests.jobs import Run, distance, job, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")
NET = """
from torch import nn

def build():
    layers = nn.Linear(64, 30), nn.BatchNorm1d(30), nn.Tanh(), nn.Dropout(0.3), nn.Linear(30, 10)
    return nn.Sequential(nn.Flatten(), *layers)
"""
RATE, MOMENTUM, GAMMA = 0.05, 0.9, 0.7
MOMENTUM_SGD = {"name": "sgd", "learning_rate": RATE, "options": {"momentum": MOMENTUM}}
DECAYED = {"name": "sgd", "learning_rate": RATE, "options": {"momentum": MOMENTUM, "weight_decay": 0.1}}
ADAM = {"name": "adam", "learning_rate": 0.01, "options": {"weight_decay": 0.1}}
"""Under these a divided rate is not a divided gradient."""
CLASSES: dict[str, Any] = {"sgd": optim.SGD, "adam": optim.Adam}


@pytest.mark.parametrize(
    ("strategy", "options", "optimizer", "schedule", "passes"),
    [
        ("async-sgd", {}, MOMENTUM_SGD, None, 1),
        # Here answers come while a pass runs, and a unit has to stay as it is until its last backward.
        ("async-sgd", {"own_writes": False}, MOMENTUM_SGD, "exponential", 2),
        ("staleness-aware", {"own_writes": False}, ADAM, None, 1),
        ("staleness-aware", {"where": "dedicated", "servers": 2}, DECAYED, "exponential", 1),
        ("softsync", {"contributions": 2}, MOMENTUM_SGD, "exponential", 1),
        ("bounded-staleness", {"bound": 1}, MOMENTUM_SGD, None, 1),
        ("bounded-staleness", {"bound": 1, "apply": "clock"}, MOMENTUM_SGD, "exponential", 2),
    ],
)
def test_the_record_says_enough_to_repeat_the_run(
    strategy: str,
    options: dict[str, Any],
    optimizer: dict[str, Any],
    schedule: str | None,
    passes: int,
    tmp_path: Path,
) -> None:
    """`passes`: micro-batches of a step; where they are several, every layer is recomputed in backward besides."""
    workers = 3
    (tmp_path / "net.py").write_text(NET)
    spec = job(
        model={"entrypoint": "net:build", "directory": str(tmp_path)},
        strategy={"name": strategy, "options": {"slice_size": 100, **options}},
        cluster={"workers": workers},
        training={"precision": "float64", "steps": 12, "micro_batches": passes, "global_batch": 36},
        overrides=[{"activations": "recompute"}] if passes > 1 else [],
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


def test_random_states_that_are_not_those_of_the_record_are_noticed(tmp_path: Path) -> None:
    """A repetition whose masks differ does not only end elsewhere: it is told at which step it went astray."""
    (tmp_path / "net.py").write_text(NET)
    spec = job(
        model={"entrypoint": "net:build", "directory": str(tmp_path)},
        strategy={"name": "async-sgd", "options": {"slice_size": 100}},
        cluster={"workers": 2},
        training={"precision": "float64", "steps": 4},
        telemetry={"updates": True},
    )
    run = succeed(spec, tmp_path / "run")
    assert distance(run.state, repeated(run, run.updates())) <= 1e-12
    for rank in range(2):
        states = read(run.launch.random_states(rank))
        assert list(states) == list(range(4))
        assert len(set(states.values())) == 4, "every step draws masks"
    mine = run.launch.random_states(1)
    rows = np.fromfile(mine, ROW)
    rows["states"][2] ^= 1
    mine.write_bytes(rows.tobytes())
    with pytest.raises(AssertionError, match="worker 1 began step 2 with other random states"):
        repeated(run, run.updates())


def repeated(run: Run, record: np.ndarray) -> dict[str, Tensor]:
    """The state_dict that the record leads to."""
    training, workers = run.launch.job.training, run.launch.job.cluster.workers
    seed_everything(training.seed, False)
    model = build_model(run.launch.job.model, training.precision)
    passes = Passes(run, model, workers)
    spec = run.launch.job.optimizer
    units = {unit.index: Versions(unit, dict(model.named_parameters()), spec) for unit in run.units}
    reads: dict[Made, dict[int, int]] = defaultdict(dict)
    due: dict[int, list[list[Made]]] = defaultdict(list)
    rates: dict[tuple[int, int], float] = {}
    for row in record:
        made = Made(Life(int(row["worker"]), int(row["incarnation"])), int(row["step"]))
        unit = int(row["unit"])
        reads[made][unit] = int(row["read"])
        if row["version"] > len(due[unit]):
            due[unit].append([])
            rates[unit, len(due[unit])] = float(row["rate"])
        assert rates[unit, len(due[unit])] == row["rate"]
        due[unit][-1].append(made)
    gradients: dict[Made, dict[str, Tensor]] = {}
    lives = {made.life for made in reads}
    steps = {life: min(made.step for made in reads if made.life == life) for life in lives}
    decay = GAMMA if run.launch.job.schedule.name == "exponential" else 1.0
    while any(due.values()):
        moved = False
        for life, step in sorted(steps.items()):
            wanted = reads.get(Made(life, step))
            if wanted and all(version < len(units[index].values) for index, version in wanted.items()):
                for index, version in wanted.items():
                    units[index].load(version)
                gradients[Made(life, step)] = passes.gradients(life, step)
                steps[life] += 1
                moved = True
        for index, updates in due.items():
            while updates and all(made in gradients for made in updates[0]):
                parts = updates.pop(0)
                factor = rates[index, len(units[index].values)]
                late = max(made.step for made in parts)
                rate = spec.learning_rate * decay**late * factor
                units[index].update([gradients[made] for made in parts], rate=rate)
                moved = True
        assert moved, "the record contradicts itself"
    for unit in units.values():
        unit.load(len(unit.values) - 1)
    passes.load_averaged()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


class Life(NamedTuple):
    """One worker, from one start to its end."""

    rank: int
    incarnation: int


class Made(NamedTuple):
    """A worker's contribution."""

    life: Life
    step: int


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


def generators() -> tuple[Any, ...]:
    """The states of those that a model may draw from."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


class Passes:
    """Every worker's steps, with its own random numbers and buffers."""

    def __init__(self, run: Run, model: nn.Module, workers: int) -> None:
        job = run.launch.job
        self.training, self.model, self.workers = job.training, model, workers
        self.data, self.task = load_dataset(job.data).train, find_task(job.model, job.data)
        self.first = {name: buffer.clone() for name, buffer in model.named_buffers()}
        self.launch = run.launch
        self.random: dict[Life, tuple[Any, ...]] = {}
        self.buffers: dict[Life, dict[str, Tensor]] = {}

    def gradients(self, life: Life, step: int) -> dict[str, Tensor]:
        indices = global_batch_at(step, len(self.data), self.training.global_batch, self.training.seed)
        whole = weight(self.data.batch(indices)[1])
        if life not in self.random:
            seed_everything(self.training.seed + 1 + life.rank + self.workers * life.incarnation, False)
            self.random[life] = generators()
        python, numpys, torchs = self.random[life]
        random.setstate(python)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)
        recorded = read(self.launch.random_states(life.rank, life.incarnation))[step]
        assert digest() == recorded, f"worker {life.rank} began step {step} with other random states"
        self._load(self.buffers.get(life, self.first))
        self.model.zero_grad()
        for piece in micro_batches(shard(indices, life.rank, self.workers), self.training.micro_batches):
            inputs, targets = self.data.batch(piece)
            assert isinstance(inputs, Tensor)
            (self.task(self.model, inputs.double(), targets).total / whole).backward()
        self.random[life] = generators()
        self.buffers[life] = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        return {n: p.grad.detach().clone() for n, p in self.model.named_parameters() if p.grad is not None}

    def load_averaged(self) -> None:
        """As they are saved: means, and the largest count."""
        last = [held for _, held in sorted(self.buffers.items())]
        for name, buffer in self.model.named_buffers():
            values = torch.stack([held[name] for held in last])
            buffer.copy_(values.mean(0) if buffer.is_floating_point() else values.amax(0))

    def _load(self, buffers: dict[str, Tensor]) -> None:
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])
