"""What a stage of a pipeline is predicted to hold, beside what the allocator counts of its own passes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.inputs.loader import MicroBatch
from engine.inputs.task import classification
from engine.liveness.measured import peak_bytes, stored
from engine.liveness.passes import Stage
from engine.liveness.peak import peak_of
from engine.memory.activations import Activations
from engine.memory.mechanism import Passes, Site
from engine.models.cut import cut_in_a_row
from engine.placement.stage import StagePasses
from engine.plan.updates import OptimizerSpec
from engine.state.computation import Computation
from engine.state.told import Untold
from tests.memory import layers_of, training

PLAIN = OptimizerSpec(name="sgd", learning_rate=0.1)
STAGES, SAMPLES, MICRO_BATCHES = 3, 24, 4


def model() -> nn.Module:
    def block(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())

    rest = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(block(3, 8), block(8, 16), block(16, 16), block(16, 16), *rest)


def batch() -> tuple[Tensor, Tensor]:
    return torch.zeros(SAMPLES, 3, 16, 16), torch.zeros(SAMPLES, dtype=torch.int64)


class Alone:
    """In place of neighbours: what comes from them is new, what goes to them is nobody's."""

    def __init__(self, entering: tuple[int, ...]) -> None:
        self._entering = entering

    def activation(self, *, training: bool) -> Tensor:
        return torch.zeros(self._entering)

    def gradient(self, of: Tensor) -> Tensor:
        return torch.zeros_like(of)

    def send_on(self, activation: Tensor, *, training: bool) -> None: ...
    def send_back(self, gradient: Tensor) -> None: ...


def measured(number: int, schedule: str, entering: tuple[int, ...]) -> int:
    whole, (inputs, targets) = model(), batch()
    described = layers_of(whole)
    part = cut_in_a_row(whole, ["1.0", "3.0"])[number]
    site = Site(
        part=part,
        device=torch.device("cpu"),
        passes=Passes(),
        recording=Untold(),
        repeats=True,
        scratch="",
    )
    nothing = dict.fromkeys(
        ("begin_forward", "end_forward", "begin_backward", "end_backward"), lambda *_: None
    )
    replica: Any = SimpleNamespace(**nothing)
    recording: Any = SimpleNamespace(step=0, caught_up=lambda: None)
    neighbours: Any = Alone(entering)
    passes = StagePasses(
        stage=number,
        stages=STAGES,
        schedule=schedule,
        part=part,
        replica=replica,
        task=classification,
        device=torch.device("cpu"),
        computation=Computation(memory=Activations(site, described, {})),
        neighbours=neighbours,
        recording=recording,
    )
    micro = [
        MicroBatch(inputs=inputs, targets=targets, samples=SAMPLES, scale=1.0) for _ in range(MICRO_BATCHES)
    ]

    def step() -> None:
        passes(micro, 1.0)
        part.zero_grad(set_to_none=True)

    step()
    return peak_bytes(step) + stored([*part.parameters(), *part.buffers(), inputs, targets])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("number", range(STAGES))
def test_a_stage_holds_what_is_in_flight(number: int, schedule: str) -> None:
    crossing = [(), (SAMPLES, 8, 16, 16), (SAMPLES, 16, 16, 16)][number]
    with torch.device("meta"):
        whole = training(model(), *batch())
        part = cut_in_a_row(whole.model, ["1.0", "3.0"])[number]
        entering = torch.empty(crossing) if number else None
    stage = Stage(part=part, number=number, stages=STAGES, schedule=schedule, entering=entering)
    found = peak_of(whole, PLAIN, {}, micro_batches=MICRO_BATCHES, stage=stage)
    counted = measured(number, schedule, crossing)
    print(f"stage {number}: measured {counted:,}, predicted {found.total:,}")
    assert abs(found.total - counted) <= 0.02 * counted
