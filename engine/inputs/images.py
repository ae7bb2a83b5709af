"""images: from bytes to what a network takes, by tensor operations: cut out, flipped, standardized.

What is random is drawn for each sample by itself, from the job's seed, the pass over the data and the sample's index.
So it depends neither on where the data are prepared nor on the number of processes, workers or micro-batches, and a
job that goes on from step n draws what it would have drawn.

    cut        a window of the wanted size; in training at a random place, else in the middle
    flip       with probability 1/2, in training
    standardize (value / scale - mean) / deviation, by channel

Cost: a byte and three float32 operations for each value; a sample travels to a device as bytes, a quarter of what it
is as float32. Source: Krizhevsky et al., "ImageNet classification with deep convolutional neural networks" (2012),
section 4.1 (windows of larger images, flipped), and He et al., "Deep residual learning for image recognition" (2016),
section 4.2 (4 pixels of padding around 32x32). Deviation: the padding is black, not the mean; and windows are not taken
at random sizes, as Inception's are, since then there is no batch of bytes that a device could cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.inputs.source import Turn

_CHANNELS = 3
_STREAMS = 3
"""Numbers for each sample: row, column, flip."""


@dataclass(frozen=True, kw_only=True)
class ImageStage:
    """What is done to images of bytes (n, 3, height, width)."""

    size: int
    """Height and width of the result."""
    scale: float
    """Values are divided by this first: 255 makes them 0 to 1."""
    mean: tuple[float, ...] | None
    """By channel, of scaled values; None: they are not standardized."""
    deviation: tuple[float, ...] | None
    padding: int = 0
    """Black pixels around each image."""
    shift: int = 0
    """A training image's window begins anywhere from 0 to twice this in height and width; else at `shift`, the
    middle."""
    flip: bool = False
    """Whether half of the training images are flipped left to right."""

    def draw(self, indices: np.ndarray, turn: Turn | None) -> Tensor:
        """(n, 3) int64: where each window begins in height and width, and whether it is flipped."""
        found = np.full((len(indices), _STREAMS), (self.shift, self.shift, 0), dtype=np.int64)
        if turn is not None and (self.shift or self.flip):
            numbers = sample_numbers(turn, indices, _STREAMS)
            places = np.uint64(2 * self.shift + 1)
            found[:, :2] = numbers[:, :2] % places
            found[:, 2] = (numbers[:, 2] >> np.uint64(63)) * np.uint64(self.flip)
        return torch.from_numpy(found)

    def __call__(self, images: Tensor, windows: Tensor) -> Tensor:
        """(n, 3, size, size) float32, contiguous, of what `draw` answered; on the device of `images`."""
        if self.shift or self.padding or self.flip:
            images = self._cut(images, windows)
        values = images.float()
        if self.scale != 1:
            # A tensor: of a number, CUDA multiplies by the inverse, which is not the same to the last bit.
            values = values / torch.full((1, 1, 1, 1), self.scale, device=values.device)
        if self.mean is None or self.deviation is None:
            return values
        mean, deviation = (
            torch.tensor(each, dtype=torch.float32, device=values.device).reshape(1, _CHANNELS, 1, 1)
            for each in (self.mean, self.deviation)
        )
        return (values - mean) / deviation

    def _cut(self, images: Tensor, windows: Tensor) -> Tensor:
        images = pad(images, (self.padding,) * 4)
        steps = torch.arange(self.size, device=images.device)
        top, left, flipped = (column[:, None] for column in windows.unbind(1))
        columns = left + torch.where(flipped > 0, self.size - 1 - steps, steps)
        samples, channels, _, width = images.shape
        rows = (top + steps)[:, None, :, None].expand(samples, channels, self.size, width)
        images = images.gather(2, rows)
        return images.gather(3, columns[:, None, None, :].expand(samples, channels, self.size, self.size))


def sample_numbers(turn: Turn, indices: np.ndarray, count: int) -> np.ndarray:
    """(n, count) uint64, evenly distributed: a function of the turn and of each index alone.

    SplitMix64's mixing (Steele, Lea and Flood, 2014), applied to seed, epoch, index and the number's place in turn.
    """
    with np.errstate(over="ignore"):  # wraps around, as it is meant to
        key = _mixed(_mixed(np.uint64(turn.seed)) ^ np.uint64(turn.epoch))
        samples = _mixed(key ^ indices.astype(np.uint64))[:, None]
        return _mixed(samples + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA)


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def _mixed(value: np.ndarray | np.uint64) -> np.ndarray:
    mixed = np.asarray(value, dtype=np.uint64) + _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
