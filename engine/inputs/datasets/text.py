"""text: any files as a language model reads them, in windows of equal length; each word's target is the next word.

The files are read one behind another, each closed by an end mark, and cut into windows that do not overlap. Test
windows are spread evenly over the text. The vocabulary is trained on all of it (`engine/inputs/vocabulary.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs import text_files, vocabulary
from engine.inputs.options import TextOptions
from engine.inputs.source import Dataset

_FIELD = "data.options.paths"


class Windows:
    """Some of the windows of a long row of words."""

    def __init__(self, tokens: np.ndarray, steps: int, numbers: np.ndarray) -> None:
        """`numbers`: which windows, by their place in the text."""
        self._tokens = tokens
        self._steps = steps
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch: inputs (n, steps), targets (n, steps), the same moved by one word."""
        first = self._numbers[indices] * self._steps
        words = self._tokens[first[:, None] + np.arange(self._steps + 1)].astype(np.int64)
        return torch.from_numpy(words[:, :-1]), torch.from_numpy(words[:, 1:])


def load(options: TextOptions) -> Dataset:
    """Inputs and targets (n, steps) int64.

    Raises UserError for files that are missing or no text, a vocabulary that they do not give, and too little text.
    """
    files = text_files.find(options.paths, options.pattern, _FIELD)
    words = vocabulary.encoded(
        files, "text", options.vocabulary, lambda: text_files.read(files, _FIELD), _FIELD
    )
    windows = (len(words.tokens) - 1) // options.steps
    train, test = spread(windows, options.test_share)
    if not len(train):
        raise UserError(
            "data.options.steps",
            options.steps,
            f"the text's {len(words.tokens)} words do not give two windows of that many",
            "Use fewer, or give more text",
        )
    return Dataset(
        name="text",
        train=Windows(words.tokens, options.steps, train),
        test=Windows(words.tokens, options.steps, test),
        input_shape=(options.steps,),
        classes=options.vocabulary,
    )


def spread(samples: int, test_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the training and of the test samples: at least one each (none to train where there is one sample),
    the test samples spread evenly."""
    passed = np.floor(np.arange(samples + 1) * test_share + 1e-9)
    is_test = passed[1:] > passed[:-1]
    is_test[-1:] |= not is_test.any()
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
