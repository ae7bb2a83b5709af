"""Randomness: the generators that every model may draw from, as they were, for a second run of the same code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


class Randomness:
    """The states of the default generators of Python, NumPy, torch and a CUDA device when this is made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._states = self._now()

    @contextmanager
    def again(self) -> Iterator[None]:
        """Around the second run, which draws the same; afterwards they go on from where they were."""
        now = self._now()
        self._set(self._states)
        try:
            yield
        finally:
            self._set(now)

    def _now(self) -> tuple[Any, ...]:
        cuda = torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None
        # As a view, which shows who counts what operations return (`engine/liveness/ledger.py`) the state.
        return random.getstate(), np.random.get_state(), torch.get_rng_state().detach(), cuda

    def _set(self, states: tuple[Any, ...]) -> None:
        python, numpy, cpu, cuda = states
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, self._device)
