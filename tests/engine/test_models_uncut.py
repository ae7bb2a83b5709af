"""Models of which a cut would lose a part, or would be in another place each time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from engine.models.cannot_cut import CannotCutError
from tests.cuts import INPUTS, Shaped, offered


class OwnUnused(Shaped):
    """A parameter of the model itself that only its loss uses."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class Threads(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda layer: layer(x), (self.first, self.second))
        return self.third(first + second)


@pytest.mark.parametrize(
    ("net", "reason"),
    [(OwnUnused, "does not use 'centers'"), (Threads, "its forward pass runs Python threads")],
)
def test_they_are_not_cut(net: type[nn.Module], reason: str) -> None:
    with pytest.raises(CannotCutError, match=reason):
        offered(net(), INPUTS)
