"""A model of somebody's own that takes its time, and stops at a step until there is a file `go` in its directory."""

from __future__ import annotations

import time
from pathlib import Path

from torch import Tensor, nn

GO = Path("go")
"""A process of a job runs in the directory of its attempt."""


class Held(nn.Sequential):
    """A network on the digits."""

    def __init__(self, at: int, keeps_pace: bool, pause_s: float) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self._at = at
        self._keeps_pace = keeps_pace
        self._pause_s = pause_s
        self._steps = 0

    def forward(self, batch: Tensor) -> Tensor:
        if self.training and not batch.is_meta and (self._keeps_pace or not GO.exists()):
            self._steps += 1
            time.sleep(self._pause_s)
            while self._steps > self._at and not GO.exists():
                time.sleep(self._pause_s)
        found: Tensor = super().forward(batch)
        return found


def build(at: int = 30, keeps_pace: bool = False, pause_s: float = 0.02) -> nn.Module:
    """It stops at step `at`."""
    return Held(at, keeps_pace, pause_s)
