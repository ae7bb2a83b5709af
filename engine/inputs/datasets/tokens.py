"""synthetic-tokens: pairs of sentences generated from their index, as translation with a fixed dictionary.

A source sentence is a row of words, the lower the number the more frequent (roughly Zipf's law); the target
sentence has, position by position, the word that a fixed random dictionary gives for the source's. So it can be
learned, and nothing is stored but the dictionary. Word 0 of the target vocabulary begins every sentence.

Cost: about 20 us per sample.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.inputs.datasets.synthetic import PATTERN_KEY, generator
from engine.inputs.options import SyntheticTokensOptions
from engine.inputs.source import Dataset

_BEGIN = 0


class TokenSource:
    """Sentence pairs first .. first + samples - 1 of the endless sequence."""

    def __init__(self, options: SyntheticTokensOptions, first: int, samples: int) -> None:
        self.options = options
        self.first = first
        self.samples = samples
        draw = generator(options.seed, PATTERN_KEY)
        self._dictionary = draw.integers(1, options.target_vocabulary, options.source_vocabulary)

    def __len__(self) -> int:
        return self.samples

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch: inputs (n, 2, length), the source and the target moved right; targets (n, length)."""
        options = self.options
        source = np.empty((len(indices), options.length), dtype=np.int64)
        for row, index in enumerate(indices.tolist()):
            if not 0 <= index < self.samples:
                raise IndexError(f"sample {index} of {self.samples}")
            draw = generator(options.seed, self.first + index)
            # From 1 to the vocabulary's size plus 1, with density 1/x; storing it as an integer rounds down.
            source[row] = (options.source_vocabulary + 1) ** draw.random(options.length) - 1
        target = self._dictionary[source]
        begin = np.full((len(indices), 1), _BEGIN, dtype=np.int64)
        inputs = np.stack([source, np.concatenate([begin, target[:, :-1]], axis=1)], axis=1)
        return torch.from_numpy(inputs), torch.from_numpy(target)


def load(options: SyntheticTokensOptions) -> Dataset:
    """Inputs (n, 2, length) int64, targets (n, length) int64; training and test sentences are drawn apart."""
    return Dataset(
        name="synthetic-tokens",
        train=TokenSource(options, 0, options.samples),
        test=TokenSource(options, options.samples, options.test_samples),
        input_shape=(2, options.length),
        classes=options.target_vocabulary,
        input_words=(options.source_vocabulary, options.target_vocabulary),
    )
