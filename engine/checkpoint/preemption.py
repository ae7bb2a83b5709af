"""A person wants an attempt to end with a checkpoint, so that its job goes on later. Two files in its directory: the
service writes the one that asks, which worker 0 looks for, and worker 0 the one that says after which step it was done.
No torch here.

A file needs no connection: it reaches workers of an attempt whose server has been restarted, and workers never listen
to anybody.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.regular import NotRegularError, read_regular, write_whole

_ASKED, _DONE = "preempt.json", "preempted.json"
_MOST_BYTES = 1000
AGAIN_S = 30.0
"""Until it is tried once more, where the checkpoint could not be written."""


def ask(directory: Path) -> None:
    """Let the attempt end with a checkpoint, as soon as it can. Raises OSError."""
    write_whole(directory / _ASKED, b"{}")


def preempted_step(directory: Path) -> int | None:
    """After which step the attempt ended with a checkpoint; None: it did not."""
    try:
        found = json.loads(read_regular(directory / _DONE, _MOST_BYTES, root=directory))
    except (OSError, NotRegularError, ValueError, RecursionError):
        return None
    step = found.get("step") if isinstance(found, dict) else None
    return step if isinstance(step, int) else None


class Preemption:
    """Worker 0's side."""

    def __init__(self, directory: Path) -> None:
        """`directory`: of the attempt."""
        self._directory = directory
        self._not_before_s = 0.0

    def asked(self, now_s: float) -> bool:
        """Whether the attempt is to end now."""
        return now_s >= self._not_before_s and (self._directory / _ASKED).exists()

    def done(self, step: int) -> None:
        """The checkpoint is on the disk."""
        write_whole(self._directory / _DONE, json.dumps({"step": step}).encode(), sync=True)

    def failed(self, now_s: float) -> None:
        """It is not, and training goes on."""
        self._not_before_s = now_s + AGAIN_S
