"""What a data set is: samples by index, for training and for testing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from engine.inputs.batch import Tensors, count, every


class Source(Protocol):
    """Samples that can be read by index, in any order and any number of times, with the same result."""

    def __len__(self) -> int:
        """Number of samples."""

    def batch(self, indices: np.ndarray) -> tuple[Tensors, Tensors]:
        """Inputs (n, *input_shape) and targets (n, ...) of the samples at `indices` (n int64, 0 <= i < len), or several
        such tensors in containers (`batch.py`).

        n may be 0. Raises IndexError outside of the range.
        """


@runtime_checkable
class CountingSource(Source, Protocol):
    """A source whose samples do not all have as many targets that count, because some are IGNORED (`task.py`)."""

    def target_count(self, indices: np.ndarray) -> int:
        """How many targets of the samples at `indices` count. Every worker asks for the whole global batch, so this
        should not read the samples."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Which pass over the training data samples are read for: who changes samples at random draws by it."""

    seed: int
    """The job's."""
    epoch: int
    """From 0."""


@runtime_checkable
class StagedSource(Source, Protocol):
    """A source that makes samples in two stages: what is stored of them is read, and then finished by operations on
    tensors, which do the same on every device. `batch(indices)` is both."""

    def stored(self, indices: np.ndarray, turn: Turn | None) -> tuple[Tensors, Tensors]:
        """What `finished` needs of the samples at `indices`, its first dimension that of the samples, and their
        targets; on the host. What is random of training samples is drawn here, by `turn` and each sample's index and by
        nothing else; None: the samples as they are."""

    def finished(self, stored: Tensors) -> Tensors:
        """The inputs, made of the first that `stored` answers, on the device where that is by now. Draws nothing."""


@runtime_checkable
class ItemSource(Source, Protocol):
    """A source that reads samples one by one."""

    before_item: Callable[[int], object]
    """Called with each index before that sample is read."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Training and test samples of one task."""

    name: str
    """The catalogue's name, or the entry point."""
    train: Source
    test: Source
    input_shape: tuple[int, ...]
    """Shape of one input sample; of the largest, where they differ. Where an input is several tensors, the first's."""
    classes: int | None
    """Number of classes; None where the task is not classification."""
    example: int = 0
    """Index of a training sample of the largest shape: a model's description is made with it."""
    input_words: tuple[int, ...] = ()
    """How many words each row of an input of words (rows, length) is of; empty: inputs are no words, or that is not
    known."""


class TensorSource:
    """Samples that fit in memory."""

    def __init__(self, inputs: Tensors, targets: Tensors) -> None:
        if count(inputs) != count(targets):
            raise ValueError(
                f"{count(inputs)} inputs but {count(targets)} targets: give one target per input"
            )
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return count(self.inputs)

    def batch(self, indices: np.ndarray) -> tuple[Tensors, Tensors]:
        """See Source.batch."""
        chosen = torch.from_numpy(np.ascontiguousarray(indices, dtype=np.int64))
        inputs, targets = (every(lambda tensor: tensor[chosen], part) for part in (self.inputs, self.targets))
        return inputs, targets
