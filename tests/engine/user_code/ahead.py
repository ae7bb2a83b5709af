"""A user's model of which one worker gets ahead of another, and stops in the middle of a push."""

from __future__ import annotations

from multiprocessing import current_process
from pathlib import Path

from returning import wait_for
from torch import Tensor, nn


class Ahead(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10). Worker 0 waits in its step 1 for the file `go` in `marks`, and in its step 8 for what
    worker 2's second process leaves when it has contributed a step, `worker 2.1`. The first one leaves `worker 2.0` in
    the backward pass of its step 3, when the last layer's gradient has left and the first one's has not, and stays."""

    def __init__(self, marks: Path) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self._name = current_process().name
        self._marks = marks
        self._calls = 0
        self._life = len(list(marks.glob("worker 2.*")))
        self[1].weight.register_hook(self._between)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            step, self._calls = self._calls, self._calls + 1
            if self._name == "worker 0" and step in (1, 8):
                wait_for(self._marks / ("go" if step == 1 else "worker 2.1"))
            if self._name == "worker 2" and self._life and step == 1:
                (self._marks / "worker 2.1").touch()
        return super().forward(x)

    def _between(self, _: Tensor) -> None:
        if self._name == "worker 2" and not self._life and self._calls == 4:
            (self._marks / "worker 2.0").touch()
            wait_for(self._marks / "never")


def build(marks: str) -> nn.Module:
    return Ahead(Path(marks))
