"""Exact class, gradients that some workers lack, or all, of layers that PowerSGD sums in two phases: who lacks one
takes part with what it lost before, and what nobody has is left alone, with what was lost of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.codec.summed_powersgd import SummedPowerSgd
from engine.inputs.build import find_task, load_dataset
from engine.inputs.sharding import global_batch_at, shard
from engine.models.build import build_model
from engine.plan.units import Unit
from engine.runtime.party import load_choices
from engine.runtime.worker import seed_everything
from engine.state.updates import build_optimizer
from tests.equivalence.test_absent_gradients import assert_left_alone, spec_of
from tests.jobs import Run, distance, succeed

pytestmark = pytest.mark.usefixtures("gang_lane")


def expected(run: Run, workers: int) -> dict[str, Tensor]:
    """Plain PyTorch, a model for each worker; each unit's gradients are met by hand, with the codec itself."""
    spec = run.launch.job
    training = spec.training
    data, task = load_dataset(spec.data), find_task(spec.model, spec.data)
    models, optimizers = [], []
    for _ in range(workers):
        seed_everything(training.seed, False)
        models.append(build_model(spec.model, training.precision))
        optimizers.append(build_optimizer(spec.optimizer, list(models[-1].named_parameters())))
    codecs = {unit.index: [summed(run, unit) for _ in range(workers)] for unit in run.units if unit.phases}
    assert training.steps is not None
    for step in range(training.steps):
        indices = global_batch_at(step, len(data.train), training.global_batch, training.seed)
        for rank, model in enumerate(models):
            inputs, targets = data.train.batch(shard(indices, rank, workers))
            (task(model, inputs.double(), targets).total / len(indices)).backward()
        met: list[dict[str, Tensor]] = [{} for _ in models]
        for unit in run.units:
            meet(unit, models, codecs.get(unit.index), met)
        for model, optimizer, found in zip(models, optimizers, met, strict=True):
            for name, parameter in model.named_parameters():
                parameter.grad = found.get(name)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return {name: held.detach() for name, held in models[0].state_dict().items()}


def summed(run: Run, unit: Unit) -> SummedPowerSgd:
    """As every worker opens it."""
    codec = load_choices(run.launch)[unit.index].summed()
    assert isinstance(codec, SummedPowerSgd)
    return codec


def meet(
    unit: Unit, models: list[nn.Module], codecs: list[SummedPowerSgd] | None, met: list[dict[str, Tensor]]
) -> None:
    """What all come to goes beside the gradients, in `met`, by worker and name: other units have other parts."""
    named = [dict(model.named_parameters()) for model in models]
    there = [any(each[s.parameter].grad is not None for each in named) for s in unit.segments]
    given = [[part(each[s.parameter].grad, s.start, s.stop) for s in unit.segments] for each in named]
    if codecs is None:
        found = [[torch.stack(parts).sum(0) for parts in zip(*given, strict=True)]] * len(models)
    else:
        sums = [torch.stack([c.begin(parts) for c, parts in zip(codecs, given, strict=True)]).sum(0)]
        if len(unit.phases) > 1:
            sums.append(torch.stack([codec.go_on(sums[0]) for codec in codecs]).sum(0))
        found = [[torch.empty_like(each) for each in parts] for parts in given]
        for codec, parts in zip(codecs, found, strict=True):
            codec.end(sums, parts, there)
    for each, parts, mine in zip(named, found, met, strict=True):
        for segment, value, applied in zip(unit.segments, parts, there, strict=True):
            if applied:
                whole = mine.setdefault(segment.parameter, torch.zeros_like(each[segment.parameter]))
                whole.view(-1)[segment.start : segment.stop] = value


def part(gradient: Tensor | None, start: int, stop: int) -> Tensor:
    if gradient is None:
        return torch.zeros(stop - start, dtype=torch.float64)
    return gradient.reshape(-1)[start:stop].clone()


@pytest.mark.parametrize(
    ("strategy", "workers", "options"),
    [
        ("ring-allreduce-overlap", 3, {"bucket_bytes": 4000}),
        ("parameter-server", 2, {"update": "worker"}),
        pytest.param("p3", 3, {"update": "worker", "slice_size": 60}, marks=pytest.mark.soak),
        pytest.param("tree-allreduce", 3, {"bucket_bytes": 240}, marks=pytest.mark.soak),
    ],
)
def test_what_some_or_all_lack_is_met_as_in_a_plain_loop(
    strategy: str, workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    options = {**options, "codec": "powersgd", "codec_options": {"rank": 1}}
    run = succeed(spec_of(workers, strategy, options), tmp_path)
    assert any(len(unit.phases) == 2 for unit in run.units)
    begun = spec_of(1, "single", {})
    seed_everything(begun.training.seed, False)
    before = build_model(begun.model, "float64").state_dict()
    assert distance(run.state, expected(run, workers)) <= 1e-10
    assert_left_alone(run, before)
