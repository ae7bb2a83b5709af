"""What is said of a worker that was lost, and read again from what was said: a job's message is all that is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOSS = re.compile(
    r"(worker \d+) was lost after (\d+) steps: (.*?)"
    r"(?:; \1 joined again at step (\d+) \(incarnation \d+\))?"
    r"(?=; worker \d+ (?:was lost|joined again|came back)|$)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A worker without which a job went on."""

    worker: str
    """`worker 2`."""
    steps: int
    """That it had contributed."""
    why: str
    """`killed by SIGKILL`."""
    joined_again: int | None = None
    """The step from which on it contributed again; None where it did not."""

    @property
    def text(self) -> str:
        """`worker 2 was lost after 37 steps: killed by SIGKILL`."""
        return f"{self.worker} was lost after {self.steps} steps: {self.why}"


def losses_in(message: str | None) -> tuple[Loss, ...]:
    """Every `Loss.text` in a message that says several things, in their order."""
    found = _LOSS.finditer(message or "")
    return tuple(
        Loss(
            worker=each[1],
            steps=int(each[2]),
            why=each[3],
            joined_again=None if each[4] is None else int(each[4]),
        )
        for each in found
    )
