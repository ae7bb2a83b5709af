"""A model that puts its layers elsewhere while it is described has the layers that it was built with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

from engine.models.describe import describe
from engine.plan.description import Factors


class _Joined(nn.Module):
    """Puts its layers into one after so many passes."""

    def __init__(self, passes: int) -> None:
        super().__init__()
        self._left = passes
        self.parts = nn.ModuleList([nn.Flatten(), nn.Linear(64, 12), nn.Linear(12, 10)])

    def forward(self, x: Tensor) -> Tensor:
        if self._left == 0:
            self.parts = nn.ModuleList([nn.Sequential(*self.parts)])
        self._left -= 1
        for part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize("passes", [0, 1, 2, 3])
def test_a_model_that_changes_while_it_is_described_has_the_layers_that_it_was_built_with(
    passes: int,
) -> None:
    found = describe(_Joined(passes), torch.randn(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), "joined")
    assert {layer.name: layer.factors for layer in found.layers} == {
        "parts.1": Factors(rows=1, inputs=64, outputs=12),
        "parts.2": Factors(rows=1, inputs=12, outputs=10),
    }


class _Renamed(nn.Module):
    """Gives its parameters other names in its first pass, or lets a layer go."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.last, self.other = nn.Linear(8, 6), nn.Linear(6, 3), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        how, self.how = self.how, ""
        if how == "pruned":
            prune.l1_unstructured(self.first, "weight", amount=0.5)
        elif how == "parametrized":
            parametrize.register_parametrization(self.first, "weight", nn.Tanh())
        elif how == "gone":
            self.other = nn.Identity()  # type: ignore[assignment]
        found: Tensor = self.last(torch.tanh(self.first(x)))
        return found


@pytest.mark.parametrize("how", ["pruned", "parametrized", "gone"])
def test_so_has_one_that_renames_its_parameters_in_its_first_pass(how: str) -> None:
    """It was refused with the KeyError of a name."""
    found = describe(_Renamed(how), torch.randn(2, 8), torch.zeros(2, dtype=torch.int64), "renamed")
    assert {p.name for layer in found.layers for p in layer.parameters} == {
        f"{layer}.{name}" for layer in ("first", "last", "other") for name in ("weight", "bias")
    }
