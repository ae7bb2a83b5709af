"""Real jobs for tests: a gang of real processes over real connections, and its one-process reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine import launch as launches
from engine.gang.gang import Gang, GangEnd
from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.inputs.task import weight
from engine.launch import Launch
from engine.models.build import build_model
from engine.models.describe import describe_request
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain, to_plain
from engine.plan.units import Unit, cut
from engine.runtime.worker import seed_everything
from engine.state.update_record import read
from engine.state.updates import HyperSchedule, apply_hyper, build_optimizer
from engine.strategies import build_plan
from tests.plans import choose
from tests.resident import Residents

RESIDENTS = Residents()
"""Of all tests of this process."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a finished job left behind."""

    launch: Launch
    end: GangEnd

    @property
    def state(self) -> dict[str, Tensor]:
        """The trained state_dict."""
        found: dict[str, Tensor] = torch.load(self.launch.result / "model.pt", weights_only=True)
        return found

    def summary(self, rank: int = 0) -> dict[str, Any]:
        name = "summary.json" if rank == 0 else f"summary-{rank}.json"
        found: dict[str, Any] = json.loads((self.launch.result / name).read_text())
        return found

    @property
    def plan(self) -> Plan:
        assert isinstance(self.launch.plan, Plan)
        return self.launch.plan

    @property
    def units(self) -> tuple[Unit, ...]:
        """What the plan cuts the model into."""
        return cut(self.plan, self.launch.model)

    def updates(self) -> np.ndarray:
        """The rows of all servers' records, each server's in the order of its updates."""
        return np.concatenate([read(self.launch.updates(index)) for index in range(self.plan.servers.count)])

    def logs(self) -> str:
        return "\n".join(
            f"--- {p.name}\n{p.read_text()}" for p in sorted((self.launch.directory / "logs").glob("*"))
        )


def job(**changes: Any) -> JobSpec:
    """A small job on the digits; `changes` replace top-level fields, `training` is merged."""
    training = {"steps": 10, "global_batch": 26, "seed": 3, **changes.pop("training", {})}
    plain = {
        "name": "test",
        "model": {"name": "cnn"},
        "data": {"name": "digits"},
        "optimizer": {
            "name": "sgd",
            "learning_rate": 0.05,
            "options": {"momentum": 0.9, "weight_decay": 1e-3},
        },
        "evaluation": {"every_epochs": None, "at_end": False},
        "training": training,
        **changes,
    }
    return from_plain(JobSpec, plain)


@cache
def _describe(request: str) -> ModelDescription:
    return describe_request(json.loads(request))


def describe(spec: JobSpec) -> ModelDescription:
    request = {
        "model": to_plain(spec.model),
        "data": to_plain(spec.data),
        "precision": spec.training.precision,
    }
    return _describe(json.dumps(request, sort_keys=True))


def plan_of(spec: JobSpec) -> Plan | Wrapper:
    return build_plan(spec, describe(spec), choose=choose)


def prepare(spec: JobSpec, directory: Path) -> Launch:
    """The launch of a job, written down and ready for a gang."""
    launch = launches.prepare(spec, plan_of(spec), describe(spec), directory)
    launch.write()
    return launch


def run(spec: JobSpec, directory: Path, timeout_s: float = 120.0) -> Run:
    """Run a job in real processes, which may have run others before (not on hosts of a lab); whoever hangs is ended."""
    return _run(spec, directory, timeout_s, RESIDENTS.gang if spec.network.hosts is None else Gang)


def run_fresh(spec: JobSpec, directory: Path, timeout_s: float = 120.0) -> Run:
    """Run a job in real processes of its own; whatever happens, none is left."""
    return _run(spec, directory, timeout_s, Gang)


def _run(spec: JobSpec, directory: Path, timeout_s: float, make: Callable[[Launch], Gang]) -> Run:
    launch = prepare(spec, directory)
    gang = make(launch)
    gang.start()
    try:
        end = gang.wait(timeout_s)
        found = Run(launch=launch, end=end or gang.stop())
    finally:
        gang.stop()
    assert end is not None, f"the job did not end within {timeout_s} s\n{found.logs()}"
    return found


def succeed(spec: JobSpec, directory: Path) -> Run:
    """Run a job that must succeed."""
    found = run(spec, directory)
    assert found.end.status == "succeeded", f"{found.end.reason}\n{found.logs()}"
    return found


def reference(
    spec: JobSpec, workers: int, *, steps: int | None = None, autocast_cache: bool = True
) -> dict[str, Tensor]:
    """Plain PyTorch in this process: the shards of `workers` one after another, in rank order, summed.

    `autocast_cache`: autocast keeps a weight's bfloat16 copy for a whole pass, so that the gradients of a layer's
    several uses are summed in bfloat16; without, in the weight's own type.

    Batch statistics are kept apart per rank, as workers keep them, and averaged at the end. With one worker this is
    the global batch as a whole.
    """
    training = spec.training
    seed_everything(training.seed, False)
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    model = build_model(spec.model, training.precision)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = build_optimizer(spec.optimizer, named)
    total = steps or training.steps
    assert total is not None
    schedule = HyperSchedule(spec.optimizer, spec.schedule, total)
    buffers = [{n: b.clone() for n, b in model.named_buffers()} for _ in range(workers)]
    for step in range(total):
        indices = global_batch_at(step, len(data.train), training.global_batch, training.seed)
        whole = weight(data.train.batch(indices)[1])
        for rank in range(workers):
            _load(model, buffers[rank])
            for piece in micro_batches(shard(indices, rank, workers), training.micro_batches):
                if len(piece) == 0:
                    continue
                inputs, targets = data.train.batch(piece)
                if (
                    training.precision == "float64"
                    and isinstance(inputs, Tensor)
                    and inputs.is_floating_point()
                ):
                    inputs = inputs.double()
                rounded = training.precision == "bf16"
                with torch.autocast("cpu", torch.bfloat16, enabled=rounded, cache_enabled=autocast_cache):
                    loss = task(model, inputs, targets).total / whole
                loss.backward()
            buffers[rank] = {n: b.clone() for n, b in model.named_buffers()}
        if training.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_([p for _, p in named], training.clip_norm)
        apply_hyper(optimizer, schedule.at(step))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    averaged = {
        n: torch.stack([b[n] if t.is_complex() else b[n].double() for b in buffers]).mean(0).to(t.dtype)
        if t.is_floating_point() or t.is_complex()
        else torch.stack([b[n] for b in buffers]).amax(0)
        for n, t in model.named_buffers()
    }
    return {n: averaged.get(n, t.detach().clone()) for n, t in model.state_dict().items()}


def distance(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest relative difference over tensors, norm-wise: ||a - b|| / ||b||."""
    assert found.keys() == expected.keys()
    worst = 0.0
    for name, value in expected.items():
        exact = torch.complex128 if value.is_complex() else torch.float64
        left, right = found[name].to(exact), value.to(exact)
        norm = right.norm()
        worst = max(worst, float((left - right).norm() / (norm if norm > 0 else 1.0)))
    return worst


@torch.no_grad()
def _load(model: torch.nn.Module, buffers: dict[str, Tensor]) -> None:
    """The model has these buffers, and none that another rank's pass has registered."""
    for name in dict(model.named_buffers()).keys() | buffers.keys():
        owner, _, own = name.rpartition(".")
        where = model.get_submodule(owner)._buffers
        if name not in buffers:
            del where[own]
        elif own in where and buffers[name].stride() == where[own].stride():
            where[own].copy_(buffers[name])  # in place: another module may have it, too
        else:
            where[own] = buffers[name].clone()
