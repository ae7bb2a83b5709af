"""Whether data may draw random numbers is told from their code, of whatever sample."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from random import choice
from random import gauss as noisy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from engine.inputs.build import MapStyleSource
from engine.inputs.may_draw import may_draw


def noise(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


class Data(Dataset[Any]):
    """It draws when it is made, which is of no matter."""

    def __init__(self, change: Callable[[Tensor], Any] = lambda x: x) -> None:
        self.values = torch.randn(8, 3)
        self.change = change

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.change(self.values[index]), random_free(index)


def random_free(index: int) -> int:
    return int(np.array(index))


class Flipped(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index].flip(0) if index > 5 and random.random() < 0.5 else self.values[index], 0


class InPlace(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index].clone().bernoulli_(0.5), 0


class Imports(Data):
    def __getitem__(self, index: int) -> Any:
        import numpy as its_own  # noqa: PLC0415

        return self.values[index] * its_own.random.uniform(), 0


class Methods(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index].sigmoid().bernoulli(), 0


class Renamed(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index] + noisy(0.0, 1.0), 0


class ImportsFunction(Data):
    def __getitem__(self, index: int) -> Any:
        from numpy.random import rand as its_own  # noqa: PLC0415

        return self.values[index] * float(its_own()), 0


class Listed(Data):
    """Many parts."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = [(f"{at}", [at]) for at in range(300)]


class Named(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[choice((0, index))], 0


class OwnTorch(Data):
    def __getitem__(self, index: int) -> Any:
        own = torch.Generator().manual_seed(index)
        return self.values[index] + torch.randn(3, generator=own), 0


class OwnNumpy(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index] * np.random.default_rng(index).normal(), 0


class OwnPython(Data):
    def __getitem__(self, index: int) -> Any:
        return self.values[index] * random.Random(index).choice((1, 2)), 0


class OwnTwice(Data):
    def __getitem__(self, index: int) -> Any:
        own = torch.Generator().manual_seed(index)
        return torch.rand(
            3,
            generator=own,
        ).normal_(0.0, 2.0, generator=own), torch.randn(len(self.values), generator=own)


class OwnAndShared(Data):
    def __getitem__(self, index: int) -> Any:
        own = torch.Generator().manual_seed(index)
        return torch.rand(3, generator=own) + torch.randn(3), 0


class OwnAndImports(Data):
    def __getitem__(self, index: int) -> Any:
        from numpy.random import default_rng, rand  # noqa: PLC0415

        return self.values[index] * default_rng(index).normal() * rand(), 0


class OwnAndInPlace(Data):
    def __getitem__(self, index: int) -> Any:
        own = np.random.default_rng(index)
        return [torch.empty(3).normal_(mean) for mean in own.uniform(size=3)], 0


class OwnAndNamed(Data):
    def __getitem__(self, index: int) -> Any:
        own = random.Random(index)
        return list(map(noisy, (own.random(), 1.0), (1.0, own.random()))), 0


class Sampled(Data):
    """Names of its own that are those of functions which draw."""

    def __getitem__(self, index: int) -> Any:
        return self.sample(index), 0

    def sample(self, index: int) -> Tensor:
        return self.values[index]


DRAW: dict[str, tuple[Callable[[], Any], str]] = {
    "a function that it holds": (lambda: Data(noise), "noise names randn_like"),
    "a module's function": (Flipped, r"Flipped.__getitem__ names random"),
    "a tensor's method": (InPlace, "InPlace.__getitem__ names bernoulli_"),
    "what it imports itself": (Imports, "Imports.__getitem__ names (random|uniform)"),
    "a function by its own name": (Named, "Named.__getitem__ names choice"),
    "a function by another name": (Renamed, "Renamed.__getitem__ names noisy"),
    "a function that it imports by another name": (ImportsFunction, "ImportsFunction.__getitem__ names rand"),
    "a method that makes another tensor": (Methods, "Methods.__getitem__ names bernoulli"),
    "own and shared ones": (OwnAndShared, "OwnAndShared.__getitem__ names randn"),
    "own ones and what it imports": (OwnAndImports, "OwnAndImports.__getitem__ names rand"),
    "own ones and a tensor's method": (OwnAndInPlace, "OwnAndInPlace.__getitem__ names normal_"),
    "own ones and a function that it hands on": (OwnAndNamed, "OwnAndNamed.__getitem__ names noisy"),
    "one behind many parts": (lambda: ConcatDataset([*(Listed() for _ in range(12)), Flipped()]), "Flipped"),
    "more than is looked at": (
        lambda: ConcatDataset([Listed() for _ in range(80)]),
        "more than 20,000 parts",
    ),
    "a part of another": (lambda: ConcatDataset([Data(), Subset(Flipped(), [1, 2])]), "Flipped"),
}
DRAW_NONE: dict[str, Callable[[], Any]] = {
    "tensors": lambda: TensorDataset(torch.zeros(3), torch.zeros(3)),
    "a list": lambda: [(torch.zeros(3), 0)] * 5_000,
    "what draws when it is made": Data,
    "a generator of torch's": OwnTorch,
    "a generator of torch's in several calls": OwnTwice,
    "one of NumPy's": OwnNumpy,
    "one of Python's": OwnPython,
    "names": Sampled,
}


@pytest.mark.parametrize("what", DRAW)
def test_code_that_draws_is_found(what: str) -> None:
    make, says = DRAW[what]
    found = may_draw(MapStyleSource(make()))
    assert found is not None
    assert re.search(says, found)


@pytest.mark.parametrize("what", DRAW_NONE)
def test_other_data_are_read_ahead(what: str) -> None:
    assert may_draw(MapStyleSource(DRAW_NONE[what]())) is None
