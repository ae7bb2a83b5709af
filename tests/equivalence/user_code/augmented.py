"""A user's data that are augmented by chance, and a model that drops out by chance."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset


class Augmented(Dataset[tuple[Tensor, int]]):
    """Samples of 6 numbers, to train on with noise that is drawn as they are read."""

    def __init__(self, samples: int, training: bool, still: Collection[int] = ()) -> None:
        """`still`: samples that get none."""
        self.inputs = torch.randn(samples, 6, generator=torch.Generator().manual_seed(samples))
        self.training = training
        self.still = still

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = 0.1 * torch.randn(6) if self.training and index not in self.still else 0.0
        return self.inputs[index] + noise, int(self.inputs[index].argmax())


def data(still: Collection[int] = ()) -> tuple[Augmented, Augmented]:
    return Augmented(31, True, still), Augmented(5, False)


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 6))
