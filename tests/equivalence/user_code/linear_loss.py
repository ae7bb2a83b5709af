"""A user's loss whose gradients do not depend on the parameters, so that it does not matter in which order updates are
added; when it is evaluated, it leaves the parameters of the process that it runs in."""

from __future__ import annotations

from multiprocessing import current_process
from pathlib import Path

import torch
from torch import Tensor, nn


class Straight(nn.Module):
    """(n, 1, 8, 8) -> (n, 10); two layers side by side."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.one = nn.Linear(64, 10)
        self.other = nn.Linear(64, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        found: Tensor = self.one(flat) - self.other(flat.square())
        return found


def model(folder: str = "") -> nn.Module:
    return Straight(folder)


def loss(model: Straight, inputs: Tensor, targets: Tensor) -> tuple[Tensor, None]:
    if not model.training and model.folder:
        torch.save(model.state_dict(), Path(model.folder) / f"{current_process().name}.pt")
    scores = model(inputs)
    return (scores.sum() - 11 * scores.gather(1, targets[:, None]).sum()) / 10, None
