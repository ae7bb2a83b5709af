"""synthetic: samples of any shape, generated from their index: nothing is stored, all can be learned.

Sample i has class c(i), drawn with its noise from a counter-based generator keyed (seed, i); its input is
(noise + signal * pattern[c]) / sqrt(1 + signal^2), where the pattern is a coarse random one, fixed per class.
Cost: about 10 ns per element and 20 us per sample. Memory: one coarse pattern per class.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from engine.inputs.options import SyntheticOptions
from engine.inputs.source import Dataset

_COARSE_IMAGE = 4
_COARSE_VECTOR = 64
PATTERN_KEY = 2**63  # a sample's index never reaches it


class SyntheticSource:
    """Samples first .. first + samples - 1 of the endless synthetic sequence."""

    def __init__(self, options: SyntheticOptions, first: int, samples: int) -> None:
        self.options = options
        self.first = first
        self.samples = samples
        # The last two sizes are coarse, so that convolution and pooling do not average the pattern away.
        limit = _COARSE_VECTOR if len(options.sample_shape) == 1 else _COARSE_IMAGE
        kept = max(0, len(options.sample_shape) - 2)
        coarse = [*options.sample_shape[:kept], *(min(size, limit) for size in options.sample_shape[kept:])]
        draw = generator(options.seed, PATTERN_KEY)
        self._patterns = draw.standard_normal((options.class_count, *coarse), dtype=np.float32)
        self._spread = np.ix_(
            *(np.arange(size) * few // size for size, few in zip(options.sample_shape, coarse, strict=True))
        )

    def __len__(self) -> int:
        return self.samples

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch."""
        inputs = np.empty((len(indices), *self.options.sample_shape), dtype=np.float32)
        targets = np.empty(len(indices), dtype=np.int64)
        for row, index in enumerate(indices.tolist()):
            if not 0 <= index < self.samples:
                raise IndexError(f"sample {index} of {self.samples}")
            draw = generator(self.options.seed, self.first + index)
            targets[row] = draw.integers(self.options.class_count)
            draw.standard_normal(dtype=np.float32, out=inputs[row])
            inputs[row] += self.options.signal * self._patterns[targets[row]][self._spread]
        inputs /= math.sqrt(1 + self.options.signal**2)
        return torch.from_numpy(inputs), torch.from_numpy(targets)


def load(options: SyntheticOptions) -> Dataset:
    """Inputs (n, *shape) float32, targets (n,) int64; training and test samples never coincide."""
    return Dataset(
        name="synthetic",
        train=SyntheticSource(options, 0, options.samples),
        test=SyntheticSource(options, options.samples, options.test_samples),
        input_shape=options.sample_shape,
        classes=options.class_count,
    )


def generator(seed: int, key: int) -> np.random.Generator:
    """The random numbers of one sample: the same for the same seed and key, whoever asks and when."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, key], dtype=np.uint64)))
