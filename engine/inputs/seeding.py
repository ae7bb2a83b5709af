"""Seeds by sample: where a process only prepares data, random numbers follow from seed, pass and sample."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import torch

from engine.inputs.source import Turn


def seed_by(turn: Turn, index: int) -> None:
    """Seed every generator of this process that a user's code draws from, on the host."""
    numbers = np.random.SeedSequence((turn.seed, turn.epoch, index)).generate_state(4)
    random.seed(int(numbers[0]) << 32 | int(numbers[1]))
    torch.default_generator.manual_seed(int(numbers[2]))
    with suppress(TypeError):  # a user's code has put a generator of another kind in the place of NumPy's
        np.random.seed(int(numbers[3]))
