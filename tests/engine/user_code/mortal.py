"""A user's model with everything that a checkpoint has to hold: batch statistics, dropout, a frozen parameter, another
one that a pass freezes, a buffer that grows and one that goes. It draws from three generators, and kills its process
where a file says so."""

from __future__ import annotations

import os
import random
import signal
from multiprocessing import current_process
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


class Mortal(nn.Module):
    """(n, 1, 8, 8) -> (n, 10). Where the file `marks`/kill reads `worker 1/7`, that worker removes the file and kills
    itself in its eighth training pass."""

    def __init__(self, marks: Path, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.3)
        self.second = nn.Linear(width, 10)
        self.frozen = nn.Parameter(torch.ones(10), requires_grad=False)
        self.register_buffer("seen", torch.zeros(0), persistent=False)
        self.register_buffer("warm", torch.full((64,), 0.5))
        self._kill = marks / "kill"
        self._calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self._die_if_told()
            self.seen = torch.cat([self.seen, x.detach().mean()[None]])
            if len(self.seen) == 3:
                self.second.bias.requires_grad_(False)
                self.warm = None
            x = x + 0.01 * random.random() + 0.01 * np.random.rand()
        x = x.flatten(1) if self.warm is None else x.flatten(1) * self.warm
        hidden = self.dropout(torch.relu(self.norm(self.first(x))))
        found: Tensor = self.second(hidden) * self.frozen
        return found

    def _die_if_told(self) -> None:
        name, _, call = (self._kill.read_text() if self._kill.exists() else "").partition("/")
        if name == current_process().name and self._calls == int(call):
            self._kill.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        self._calls += 1


def build(marks: str, width: int = 16) -> nn.Module:
    return Mortal(Path(marks), width)
