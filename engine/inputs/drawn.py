"""Random numbers that a user's code has drawn, seen by the generators' states; and taken back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def drawn() -> tuple[Any, ...]:
    """The states of the generators of this process that a user's code draws from, on the host."""
    _, keys, *rest = np.random.get_state()
    return random.getstate(), torch.get_rng_state().numpy().tobytes(), np.asarray(keys).tobytes(), tuple(rest)


@contextmanager
def taken_back() -> Iterator[None]:
    """What is drawn in the block is drawn again after it. Nobody else may draw meanwhile."""
    python, numpys, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)
