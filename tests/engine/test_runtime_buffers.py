"""Buffers and modes around an evaluation, in this process."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engine.coordination.buffers import average, looking_with
from engine.models.modes import evaluating


class Restless(nn.Module):
    """Whose forward pass changes all that it has."""

    mean: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.frozen = nn.BatchNorm1d(3).eval()
        self.merged = False
        self.calls = 0
        self.seen: list[int] = []
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("none", None)

    def train(self, mode: bool = True) -> Restless:
        self.merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean + x.mean(0)
        self.none = x[0]
        self.count += 1
        self.calls += 1
        self.seen.append(len(x))
        self.register_buffer("late", x, persistent=False)
        self.norm.requires_grad_(False)
        self.frozen.weight.requires_grad_(True)
        self.norm.train()
        found: Tensor = self.norm(x)
        return found


def test_an_evaluation_leaves_no_trace() -> None:
    model = Restless()
    model.frozen.train(False).requires_grad_(False)
    mean = model.mean
    with evaluating(model), looking_with(model, {"mean": torch.ones(3)}):
        assert model.merged
        assert not any(module.training for module in model.modules())
        assert torch.equal(model.mean, torch.ones(3))
        model(torch.ones(2, 3))
        model(torch.ones(2, 3))
    assert not model.merged
    assert [module.training for module in (model, model.norm, model.frozen)] == [True, True, False]
    assert model.mean is mean
    assert not mean.any()
    assert (float(model.count), model.calls, model.seen, model.none) == (0, 0, [], None)
    assert not hasattr(model, "late")
    assert not model.norm.running_mean.any()  # type: ignore[union-attr]
    assert [parameter.requires_grad for parameter in model.parameters()] == [True, True, False, False]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (torch.float64, (1, 2), 1.5),
        (torch.bfloat16, (1, 2), 1.5),
        (torch.float8_e4m3fn, (1, 2), 1.5),
        (torch.complex64, (1, 2j), 0.5 + 1j),
        (torch.int64, (1, 2), 2),
        (torch.uint8, (200, 3), 200),
        (torch.uint16, (60000, 3), 60000),
        (torch.bool, (False, True), True),
    ],
)
def test_numbers_have_a_mean_and_counts_a_largest(
    dtype: torch.dtype, values: tuple[complex, complex], expected: complex
) -> None:
    found = average([torch.tensor([value], dtype=dtype) for value in values])
    assert found.dtype == dtype
    assert found.to(torch.complex64) == expected
