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
    return random.getstate(), torch.get_rng_state().numpy().tobytes(), numpys()


def numpys() -> tuple[bytes, tuple[Any, ...]]:
    """NumPy's: the arrays of its state, and the rest. A user's code may have put another generator in the place of the
    usual one; what its state consists of is its own matter."""
    arrays, rest = bytearray(), []
    left: list[Any] = [np.random.get_state(legacy=False)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += reversed([value[name] for name in value if name != "bit_generator"])
        elif isinstance(value, np.ndarray):
            arrays += value.tobytes()
        else:
            rest.append(value)
    return bytes(arrays), tuple(rest)


@contextmanager
def taken_back() -> Iterator[None]:
    """What is drawn in the block is drawn again after it. Nobody else may draw meanwhile."""
    python, numpys, torchs = random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)
