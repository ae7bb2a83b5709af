"""A user's model that gets into trouble on one worker, at a chosen step."""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing import current_process
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn


class Troubled(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10); leaves a file named after its process in `marks` when it comes to step `at`, and goes on
    step by step after pauses of `pause_s` from there."""

    def __init__(self, trouble: str, party: str, at: int, marks: str, pause_s: float, width: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        self._calls = 0
        self._trouble = trouble if current_process().name == party else ""
        self._at = at
        self._pause_s = pause_s
        self._mark = Path(marks) / current_process().name

    def forward(self, x: Tensor) -> Tensor:
        step, self._calls = self._calls, self._calls + 1
        if step == self._at:
            self._mark.touch()
            if self._trouble == "raise":
                raise ValueError("this model dislikes Mondays")
            if self._trouble == "rant":
                raise ValueError("this model dislikes Mondays" + " and Tuesdays" * 2_000_000)
            if self._trouble == "shape":
                return super().forward(x) @ torch.zeros(7, 7)
            if self._trouble == "key":
                raise KeyError("weights\nof layer 3")
            if self._trouble == "deep":
                return self.forward(x) if self._rewind() else x
            if self._trouble == "linger":
                threading.Thread(target=time.sleep, args=(600,), name="never ends").start()
            if self._trouble == "leave":
                sys.exit(0)
            if self._trouble == "vanish":
                os._exit(0)
            if self._trouble == "nan":
                return super().forward(x) * float("nan")
            if self._trouble == "nan gradient":  # of layer 1 alone, with a loss that is finite
                hidden = self[1](self[0](x))
                hidden.register_hook(lambda gradient: gradient * float("nan"))
                return cast(Tensor, self[3](self[2](hidden)))
        if step > self._at:
            time.sleep(self._pause_s)
        return super().forward(x)

    def _rewind(self) -> bool:
        self._calls = self._at
        return True


def build(
    trouble: str = "",
    party: str = "worker 1",
    at: int = 3,
    marks: str = "/tmp",
    pause_s: float = 0.0,
    width: int = 32,
) -> nn.Module:
    return Troubled(trouble, party, at, marks, pause_s, width)


def wider_on_one_worker() -> nn.Module:
    """Another shape on worker 1 than everywhere else."""
    width = 33 if current_process().name == "worker 1" else 32
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def other_buffers_on_one_worker() -> nn.Module:
    """The same parameters everywhere, but worker 1 keeps fewer statistics."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    model.register_buffer("seen", torch.zeros(1 if current_process().name == "worker 1" else 2))
    return model


def fails_on_one_worker() -> nn.Module:
    """Its weights are missing on worker 1."""
    if current_process().name == "worker 1":
        raise FileNotFoundError("no such file: weights.pt")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
