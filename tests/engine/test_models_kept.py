"""What a user's code keeps outside of the model from pass to pass is no part of a cut model: refused."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.inputs.task import BatchLoss, UserLoss
from engine.models.cannot_cut import CannotCutError
from tests.cuts import INPUTS, Shaped, offered

FEATURES: dict[str, Tensor] = {}
STEPS = [0]
CACHE: dict[int, Tensor] = {}
LEVEL = torch.zeros(())
CALLS = 0


class Row(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class Global(Row):
    """It counts its passes in a global."""

    def forward(self, x: Tensor) -> Tensor:
        global CALLS  # noqa: PLW0603
        CALLS += 1
        return super().forward(x)


class Recorder:
    """A hook that keeps what passes."""

    def __init__(self) -> None:
        self.last: Any = None

    def __call__(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self.last = output


def plain(net: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
    return net(inputs).sum(), None


def hooked() -> tuple[nn.Module, Any]:
    def keep(module: nn.Module, args: Any, output: Tensor) -> None:
        FEATURES["f"] = output.detach()

    net = Row()
    net.first.register_forward_hook(keep)
    return net, lambda net, inputs, targets: (net(inputs).sum() * FEATURES["f"].mean(), None)


def recorded() -> tuple[nn.Module, Any]:
    net, recorder = Row(), Recorder()
    net.first.register_forward_hook(recorder)
    return net, lambda net, inputs, targets: (net(inputs).sum() * recorder.last.mean(), None)


def counted() -> tuple[nn.Module, Any]:
    def loss(net: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        STEPS[0] += net.training
        return net(inputs).sum() * STEPS[0], None

    return Row(), loss


def enclosed() -> tuple[nn.Module, Any]:
    step = 0

    def loss(weight: float, net: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        nonlocal step
        step += 1
        return net(inputs).sum() * weight * step, None

    return Row(), functools.partial(loss, 0.5)


def averaged() -> tuple[nn.Module, Any]:
    def loss(net: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        total = net(inputs).sum()
        LEVEL.mul_(0.9).add_(0.1 * total.detach())
        return total * LEVEL, None

    return Row(), loss


class Slots:
    """It has no dictionary."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


def drawing(source: Any, draw: Callable[[Any], float]) -> Callable[[], tuple[nn.Module, Any]]:
    """A loss that takes something from `source` in every pass."""

    def loss(net: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        return net(inputs).sum() * draw(source), None

    return lambda: (Row(), loss)


def slotted(source: Slots) -> int:
    source.calls += 1
    return source.calls


def counted_in_bytes(source: bytearray) -> int:
    source[0] += 1
    return source[0]


def counting() -> Iterator[int]:
    count = 0
    while True:
        count += 1
        yield count


class Sometimes(Row):
    """A layer that a generator of the model's own skips now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.dice = random.Random(0)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.third(self.second(hidden) if self.dice.random() < 2 else hidden)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (drawing(Slots(), slotted), "source.calls"),
        (drawing(bytearray(2), counted_in_bytes), "source"),
        (drawing(counting(), next), "source[1]['count']"),
        (drawing(itertools.cycle([1.0, 2.0]), next), "source"),
        (drawing(random.Random(0), lambda dice: dice.random()), "source"),
        (drawing(np.random.default_rng(0), lambda dice: dice.random()), "source"),
        (drawing(np.random.RandomState(0), lambda dice: dice.rand()), "source"),
        (drawing(torch.Generator(), lambda dice: float(torch.rand((), generator=dice))), "source"),
        (lambda: (Sometimes(), plain), "dice"),
        (hooked, "FEATURES['f']"),
        (recorded, "recorder.last"),
        (counted, "STEPS[0]"),
        (enclosed, "step"),
        (averaged, "LEVEL"),
        (lambda: (Global(), plain), "CALLS"),
    ],
)
def test_what_is_kept_outside_of_the_model_is_refused(made: Any, name: str) -> None:
    net, loss = made()
    with pytest.raises(CannotCutError) as refused:
        offered(net, INPUTS, UserLoss(loss, "test"))
    assert repr(name) in str(refused.value)
    assert "in every pass" in str(refused.value)


def test_what_only_the_first_pass_changes_is_not_refused() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    criterion = nn.CrossEntropyLoss(reduction="sum")

    def loss(net: nn.Module, inputs: Tensor, targets: Tensor) -> BatchLoss:
        scores = net(inputs)
        if len(scores) not in CACHE:
            CACHE[len(scores)] = torch.ones(len(scores), 1)
        return BatchLoss(criterion(scores * CACHE[len(scores)], targets), None)

    assert offered(net, INPUTS, UserLoss(loss, "test"))["2"] == ""
