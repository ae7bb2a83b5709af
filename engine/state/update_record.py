"""What every update of a server shard consisted of: with it, a run in which workers drift can be repeated exactly.

A row for each contribution, in the order in which updates were made and, within one, in which contributions were
added: on which version of the unit it was computed, with the hyper-parameters of which step the update was made, and
by what its learning rate was multiplied. What else a step depends on follows from the job: its samples from the seed
and the step; a worker's random numbers, in the order in which it draws them from its first step on, from the seed + 1 +
its rank + the number of workers times its incarnation (how often it had been started anew). With which states of the
generators each step began is in the workers' own records (`random_record.py`), so that who repeats the run knows.
Of a step that a lost worker contributed only in part, nobody knows on which versions of the other units it was
computed. A row has 32 bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.protocol.instructions import Update

ROW = np.dtype(
    [
        ("unit", "<u4"),
        ("version", "<u4"),  # of the unit, after the update
        ("hyper_step", "<u4"),
        ("worker", "<u2"),
        ("incarnation", "<u2"),  # of the worker
        ("step", "<u4"),  # the worker's own
        ("read", "<u4"),  # version that its gradient was computed on
        ("rate", "<f8"),  # what the update's learning rate was multiplied by
    ]
)


class UpdateRecord:
    """One shard's, in a file. Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def add(self, update: Update) -> None:
        """An update that has been made."""
        rows = [
            (
                update.unit,
                update.version,
                update.step,
                part.rank,
                part.incarnation,
                part.step,
                update.version - 1 - part.staleness,
                update.rate,
            )
            for part in update.parts
        ]
        self._file.write(np.array(rows, ROW).tobytes())

    def close(self) -> None:
        """All rows are in the file."""
        self._file.close()


def read(path: Path) -> np.ndarray:
    """The rows (n) of a shard's file."""
    return np.fromfile(path, ROW)
