"""With which random states a worker's steps began: beside `update_record.py`, what a run must be repeated with.

A row for each step: a digest of the states of the generators that a model may draw from (Python's, NumPy's, torch's,
and its device's where that is CUDA), when the step's batch has been read and before its first pass. Who repeats the run
seeds them as the worker did and compares: where a model, PyTorch or another version draws otherwise, the step is found
at which it did, not a result that differs. Each row is in the file as soon as it is made, so that a worker that is
killed leaves them. A row has 20 bytes.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import torch

from engine.inputs.drawn import numpys

_DIGEST_BYTES = 16
ROW = np.dtype([("step", "<u4"), ("states", "u1", (_DIGEST_BYTES,))])


def digest(device: torch.device | None = None) -> bytes:
    """Of the states now. `device`: whose generator counts, too, where it is CUDA."""
    version, python, gauss = random.getstate()
    arrays, rest = numpys()
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    found.update(np.array(python, np.uint32).tobytes())
    found.update(arrays)
    found.update(repr((version, gauss, list(rest))).encode())
    found.update(torch.get_rng_state().numpy().tobytes())
    if device is not None and device.type == "cuda":
        found.update(torch.cuda.get_rng_state(device).numpy().tobytes())
    return found.digest()


class RandomRecord:
    """One worker's, of one of its lives, in a file."""

    def __init__(self, path: Path, device: torch.device) -> None:
        self._file = path.open("wb", buffering=0)
        self._device = device

    def add(self, step: int) -> None:
        """The step's first pass is about to begin."""
        row = np.zeros(1, ROW)
        row["step"], row["states"] = step, np.frombuffer(digest(self._device), np.uint8)
        self._file.write(row.tobytes())

    def close(self) -> None:
        """There are no more steps."""
        self._file.close()


def read(path: Path) -> dict[int, bytes]:
    """By step: its digest."""
    return {int(row["step"]): row["states"].tobytes() for row in np.fromfile(path, ROW)}
