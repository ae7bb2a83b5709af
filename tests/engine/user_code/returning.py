"""A user's model of which processes leave marks, and wait for one another's."""

from __future__ import annotations

import time
from multiprocessing import current_process
from pathlib import Path

import torch
from torch import Tensor, nn

PATIENCE_S = 60.0


class Returning(nn.Sequential):
    """(n, 1, 8, 8) -> (n, 10). The n-th process of a worker leaves the file `<worker>.<n>` in `marks`: the first one in
    its step 3, later ones when they have contributed a step. Worker 0 waits in its step 8 for `<party>.<awaits>`. The
    first `failing` processes of the party raise an error then; later ones begin when the file `begins` is there. Worker
    0 leaves the file `evaluating` when it evaluates, and then waits for the file `evaluates`. A `moody` one begins
    with another buffer in each of its lives. One that is `held` stays in the step after its mark while its life is
    before `awaits`: then it is killed there at the latest, and not far ahead of others."""

    def __init__(
        self,
        marks: Path,
        party: str,
        *,
        awaits: int,
        failing: int,
        begins: str,
        evaluates: str,
        moody: bool,
        held: bool,
    ) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self._name = current_process().name
        self._marks = marks
        self._calls = 0
        self._life = 0
        self._party = party
        self._awaits = awaits
        self._failing = failing
        self._evaluates = evaluates
        self._held = held
        if self._name == party:
            self._life = len(list(marks.glob(f"{party}.*")))
            if self._life and begins:
                wait_for(Path(begins))
        if moody:
            self.register_buffer("mood", torch.tensor(self._life))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            if self._name == "worker 0" and self._evaluates:
                (self._marks / "evaluating").touch()
                wait_for(Path(self._evaluates))
            return super().forward(x)
        step, self._calls = self._calls, self._calls + 1
        marked = 1 if self._life else 3
        if step == marked:
            (self._marks / f"{self._name}.{self._life}").touch()
            if self._name == self._party and self._life < self._failing:
                raise OSError("the disk of this machine is gone")
        if step == marked + 1 and self._held and self._name == self._party and self._life < self._awaits:
            wait_for(self._marks / f"{self._party}.{self._life + 1}")
        if step == 8 and self._name == "worker 0":
            wait_for(self._marks / f"{self._party}.{self._awaits}")
        return super().forward(x)


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def build(
    marks: str,
    party: str = "worker 2",
    awaits: int = 1,
    failing: int = 0,
    begins: str = "",
    evaluates: str = "",
    moody: bool = False,
    held: bool = False,
) -> nn.Module:
    return Returning(
        Path(marks),
        party,
        awaits=awaits,
        failing=failing,
        begins=begins,
        evaluates=evaluates,
        moody=moody,
        held=held,
    )
