"""Where a worker is in its training, also for who looks when it has been killed. No torch here.

Three numbers in a file that is mapped into memory: to change them takes a tenth of a microsecond, no system call, and
they are there however the process ends. The file is written once before it is mapped: where the disk is full, that
fails, and not the mapped page later, which would end the process.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

from engine.plan.description import ModelDescription
from engine.regular import PRIVATE
from engine.telemetry.events import NONE

BEFORE, WAITING, READING = "before the first step", "between two steps", "while it read a batch"
FORWARD, BETWEEN, BACKWARD = "in forward", "between forward and backward", "in backward"
AGAIN, UPDATING = "in a second forward", "in the update"
PARTS = (BEFORE, WAITING, READING, FORWARD, BETWEEN, BACKWARD, AGAIN, UPDATING)
"""Of a step, for people."""
_NUMBERS = {part: number for number, part in enumerate(PARTS)}
_form = struct.Struct("<iii")
BYTES = _form.size


class Spot(NamedTuple):
    """In a worker's training."""

    part: str
    """One of PARTS."""
    layer: int
    """The layer at work, in backward the last one whose gradients are there; NONE where no one is known."""
    step: int

    def said(self, model: ModelDescription, samples: int) -> str:
        """`in forward at conv1, in step 3 with passes of 64 samples`."""
        at = self.part
        if 0 <= self.layer < len(model.layers):
            name = model.layers[self.layer].name or "(root)"
            at = f"{at}, after the gradients of {name}" if self.part == BACKWARD else f"{at} at {name}"
        return f"{at}, in step {self.step} with passes of {samples} samples"


class Whereabouts:
    """One worker's."""

    def __init__(self, path: Path) -> None:
        """In a file of this name, which is made. Raises OSError."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
        try:
            os.pwrite(descriptor, _form.pack(0, NONE, 0), 0)
            self._memory = mmap.mmap(descriptor, BYTES)
        finally:
            os.close(descriptor)

    def put(self, part: str, layer: int, step: int) -> None:
        """It is there now."""
        _form.pack_into(self._memory, 0, _NUMBERS[part], layer, step)


def read(content: bytes) -> Spot | None:
    """What such a file holds; None for anything else."""
    if len(content) != BYTES:
        return None
    part, layer, step = _form.unpack(content)
    return Spot(PARTS[part], layer, step) if 0 <= part < len(PARTS) else None
