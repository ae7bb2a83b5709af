"""A user's model of which processes leave marks, and one of which waits for another's."""

from __future__ import annotations

import time
from multiprocessing import current_process
from pathlib import Path

from torch import Tensor, nn

PATIENCE_S = 60.0


class Returning(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10). The n-th process of a worker leaves the file `<worker>.<n>` in `marks`: the first one in
    its step 3, later ones when they have contributed a step. Worker 0 waits in its step 8 for `<party>.<awaits>`. The
    first `failing` processes of the party raise an error then."""

    def __init__(self, marks: str, party: str, awaits: int, failing: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self._calls = self._life = 0
        self._name = current_process().name
        self._marks = Path(marks)
        self._party = party
        self._awaits = awaits
        self._failing = failing

    def forward(self, x: Tensor) -> Tensor:
        step, self._calls = self._calls, self._calls + 1
        if not step:
            self._life = len(list(self._marks.glob(f"{self._name}.*")))
        if step == (1 if self._life else 3):
            (self._marks / f"{self._name}.{self._life}").touch()
            if self._name == self._party and self._life < self._failing:
                raise OSError("the disk of this machine is gone")
        if step == 8 and self._name == "worker 0":
            end = time.monotonic() + PATIENCE_S
            while not (self._marks / f"{self._party}.{self._awaits}").exists() and time.monotonic() < end:
                time.sleep(0.01)
        return super().forward(x)


def build(marks: str, party: str = "worker 2", awaits: int = 1, failing: int = 0) -> nn.Module:
    return Returning(marks, party, awaits, failing)
