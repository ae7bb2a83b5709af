"""Activations and gradients that cross an edge by a codec, trained against a plain loop that rounds them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.axes.codec import CODEC
from engine.codec.base import Piece
from engine.codec.opening import opened
from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, micro_batches, shard
from engine.inputs.task import Task
from engine.models.build import build_model
from engine.plan.encoding import Encoding, encoding
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain
from engine.runtime.worker import seed_everything
from engine.state.updates import build_optimizer
from engine.telemetry.events import Kind
from engine.telemetry.spool import batches
from engine.tensor_bytes import as_bytes, joined
from tests.equivalence.test_hybrid import assert_evaluated
from tests.jobs import Run, distance, job, succeed
from tests.traffic import assert_declared

pytestmark = pytest.mark.usefixtures("gang_lane")

WAYS = {m.name: encoding(m.name) for m in CODEC if m.available and "close" in m.traits}
WAYS["int8, block 100"] = encoding("int8", {"block": 100})
STEPS = 4
SPLIT = {
    "global_batch": 26,
    "micro_batches": 3,
    "precision": "float64",
    "steps": STEPS,
    "deterministic": True,
}
PLACES: dict[str, tuple[int, int, dict[str, Any]]] = {
    # workers, replicas, strategy
    "hybrid": (2, 2, {"name": "hybrid", "options": {"cut": "6", "where": "dedicated"}}),
    "two stages": (4, 2, {"name": "model-parallel", "options": {"stages": 2, "cuts": ["6"]}}),
    "three stages, gpipe": (
        3,
        1,
        {"name": "model-parallel", "options": {"cuts": ["2", "6"], "schedule": "gpipe"}},
    ),
}


def spec_of(place: str, way: Encoding) -> JobSpec:
    workers, _, strategy = PLACES[place]
    crosses = {"edge_codec": way.codec, "edge_codec_options": to_plain(way.options)}
    return job(
        strategy={**strategy, "options": {**strategy["options"], **crosses}},
        cluster={"workers": workers},
        training=SPLIT,
        evaluation={"every_epochs": None, "at_end": True},
        telemetry={"detail": "all"},
    )


def crossed(value: Tensor, way: Encoding) -> Tensor:
    """What arrives of one message."""
    flat = value.detach().contiguous().view(-1)
    codec = opened(way, Piece(name="", count=len(flat), dtype=flat.dtype), remembers=False)
    found = torch.empty_like(flat)
    codec.decode(joined([as_bytes(part) for part in codec.encode([flat], [0])]), [found])
    return found.view(value.shape)


class Crossing(torch.autograd.Function):
    """Rounds what passes, and its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, way: Encoding) -> Tensor:
        ctx.way = way
        return crossed(value, way)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return crossed(gradient, ctx.way), None


def loss_of(
    model: nn.Module, task: Task, inputs: Tensor, targets: Tensor, cuts: set[str], way: Encoding
) -> Tensor:
    class Cut(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for name, part in model.named_children():
                x = part(Crossing.apply(x, way) if name in cuts else x)
            return x

    return task(Cut(), inputs, targets).total


def expected(run: Run, replicas: int, way: Encoding) -> Mapping[str, Tensor]:
    """Plain PyTorch: each replica's micro-batches one after another, each of which crosses by itself."""
    spec = run.launch.job
    training, cuts = spec.training, {edge.destination for edge in run.plan.edges}
    seed_everything(training.seed, False)
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    model = build_model(spec.model, training.precision)
    optimizer = build_optimizer(spec.optimizer, list(model.named_parameters()))
    for step in range(STEPS):
        indices = global_batch_at(step, len(data.train), training.global_batch, training.seed)
        optimizer.zero_grad()
        for rank in range(replicas):
            for part in micro_batches(shard(indices, rank, replicas), training.micro_batches):
                inputs, targets = data.train.batch(part)
                loss = loss_of(model, task, inputs.double(), targets, cuts, way)
                (loss / len(indices)).backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", WAYS)
def test_each_message_is_rounded_where_it_crosses(name: str, place: str, tmp_path: Path) -> None:
    """And an evaluation, in which nothing is, measures the model that is saved."""
    run = succeed(spec_of(place, WAYS[name]), tmp_path)
    assert_declared(run)
    assert distance(run.state, expected(run, PLACES[place][1], WAYS[name])) <= 1e-12
    assert_evaluated(run)


@pytest.mark.parametrize("place", PLACES)
def test_what_rounding_takes_is_on_the_timeline(place: str, tmp_path: Path) -> None:
    """Both ends, in training alone: a micro-batch is encoded and decoded once each way."""
    run = succeed(spec_of(place, WAYS["int8"]), tmp_path)
    events = np.concatenate([b.table("events") for b in batches(run.launch.spool)])
    cuts = {run.launch.model.layer(edge.destination).index for edge in run.plan.edges}
    messages = 2 * STEPS * 3 * PLACES[place][1] * len(cuts)
    for kind in (Kind.ENCODE, Kind.DECODE):
        assert set(events["layer"][events["kind"] == kind].tolist()) == cuts
        assert sum(events["kind"] == kind) == messages


def test_passes_without_samples_cross_without_a_byte(tmp_path: Path) -> None:
    """Steps of 8, 8 and 3 samples in four micro-batches: one of the last step's has none."""
    data = {"name": "synthetic", "options": {"shape": [1, 8, 8], "samples": 19, "test_samples": 4}}
    spec = spec_of("hybrid", WAYS["int8"])
    training = replace(spec.training, global_batch=8, micro_batches=4, steps=6)
    spec = replace(spec, data=job(data=data).data, training=training)
    run = succeed(spec, tmp_path)
    assert_evaluated(run)
