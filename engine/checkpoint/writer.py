"""Writes a party's parts in a thread of its own, while training goes on.

One at a time: who has captured the next part before the last one is on the disk waits for that, so that a slow disk
slows training down and does not fill memory. Worker 0 waits for the other parties' parts, too, in that thread. What
cannot be written ends no job: the checkpoint is missing, and the log says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from engine.checkpoint.part import Part, write
from engine.checkpoint.store import Store

PATIENCE_S = 120.0
"""How long worker 0 waits for a word of every other party. They capture within a step of each other, and then write."""
LAST_S = 10.0
"""The same, once training is over: a shard may not have come to the step behind the last cut."""


class Writer:
    """One party's."""

    def __init__(self, store: Store, name: str, *, all_names: Collection[str] = ()) -> None:
        """`name`: of its parts. `all_names`: on worker 0, every part of a checkpoint."""
        self._store = store
        self._name = name
        self._all_names = all_names
        self._thread: threading.Thread | None = None
        self._until_s = 0.0
        self.whole = False
        """Whether the last checkpoint is one; known to worker 0, once it has waited."""

    def wait(self) -> None:
        """Until the last part is on the disk, or will not be."""
        if self._thread is not None:
            self._thread.join()

    def write(self, step: int, part: Part) -> None:
        """Begin to write; `part` is the writer's from now on."""
        self.wait()
        self.whole = False
        self._until_s = time.monotonic() + PATIENCE_S
        self._thread = threading.Thread(
            target=self._write, args=(step, part), name=f"write {self._name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Training is over."""
        self._until_s = min(self._until_s, time.monotonic() + LAST_S)
        self.wait()

    def _write(self, step: int, part: Part) -> None:
        try:
            self._store.say(step, self._name, write(part, self._store.part(step, self._name)))
        except (OSError, TypeError) as error:
            _not_written(step, f"{self._name} could not write its part: {error}")
            self._say_why(step, str(error))
        if not self._all_names:
            return
        try:
            why = self._store.complete(step, self._all_names, lambda: self._until_s)
        except OSError as error:
            why = str(error)
        self.whole = why is None
        if why is not None:
            _not_written(step, why)

    def _say_why(self, step: int, error: str) -> None:
        try:
            self._store.say(step, self._name, error)
        except OSError:  # a disk without room for that, either: worker 0 hears nothing, and gives up
            return


def _not_written(step: int, why: str) -> None:
    print(f"warning: there is no checkpoint of step {step}: {why}", flush=True)
