"""cifar10: Krizhevsky's 60,000 labelled 32x32 colour images, from the published batch files on disk.

Reads the Python version (`data_batch_1` .. `data_batch_5`, `test_batch`: pickled dictionaries) and the
binary version (the same names with `.bin`: records of one label byte and 3,072 pixel bytes), both channels
first. Pixels are standardized per channel with the training part's mean and deviation (`engine/inputs/images.py`, with
what a job has changed at random). Memory: 737 MB in float32 would be too much for every worker, so bytes are kept
(184 MB) and converted batch by batch.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs.images import ImageStage
from engine.inputs.options import Cifar10Options
from engine.inputs.source import Dataset, Turn

_PIXELS = 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
_TEST = ("test_batch",)


class ImageBytesSource:
    """Images kept as bytes (n, 3, 32, 32), finished when they are read."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, stage: ImageStage) -> None:
        self._images = images
        self._labels = labels
        self._stage = stage

    def __len__(self) -> int:
        return len(self._labels)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch."""
        stored, targets = self.stored(indices, None)
        return self.finished(stored), targets

    def stored(self, indices: np.ndarray, turn: Turn | None) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """See StagedSource.stored: bytes, and the windows to cut out of them."""
        images, labels = torch.from_numpy(self._images[indices]), torch.from_numpy(self._labels[indices])
        return (images, self._stage.draw(indices, turn)), labels

    def finished(self, stored: tuple[Tensor, Tensor]) -> Tensor:
        """See StagedSource.finished."""
        return self._stage(*stored)


def load(options: Cifar10Options) -> Dataset:
    """Inputs (n, 3, 32, 32) float32, targets (n,) int64. Raises UserError for missing or broken files."""
    folder = Path(options.directory)
    train_images, train_labels = _read_all(folder, _TRAIN)
    test_images, test_labels = _read_all(folder, _TEST)
    sample = train_images[:: max(1, len(train_images) // 10_000)]  # the full mean differs in the fourth digit
    mean, deviation = sample.mean((0, 2, 3)), np.maximum(sample.std((0, 2, 3)), 1.0)
    stage = ImageStage(
        size=32,
        scale=1 if options.normalize else 255,
        mean=tuple(mean.tolist()) if options.normalize else None,
        deviation=tuple(deviation.tolist()) if options.normalize else None,
        padding=options.shift,
        shift=options.shift,
        flip=options.flip,
    )
    return Dataset(
        name="cifar10",
        train=ImageBytesSource(train_images, train_labels, stage),
        test=ImageBytesSource(test_images, test_labels, stage),
        input_shape=(3, 32, 32),
        classes=10,
    )


def _read_all(folder: Path, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    parts = [_read(folder, name) for name in names]
    images = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    return images.reshape(-1, 3, 32, 32), labels


def _read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 3072) uint8 and labels (n,) int64 of one file of either version."""
    binary, pickled = folder / f"{name}.bin", folder / name
    path = binary if binary.is_file() else pickled
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            "data.options.directory",
            str(folder),
            f"holds neither {name} nor {name}.bin that can be read ({error.strerror})",
            "Extract cifar-10-python.tar.gz or cifar-10-binary.tar.gz and name the folder of the batch files",
        ) from error
    try:
        pixels, labels = _from_binary(content) if path == binary else _from_pickle(content)
    except (ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise _broken(path, f"is not a CIFAR-10 batch file: {error}") from error
    if pixels.shape != (len(labels), _PIXELS) or len(labels) == 0 or labels.max() > 9 or labels.min() < 0:
        raise _broken(path, f"holds pixels {pixels.shape} and {len(labels)} labels, not (n, 3072) and 0 to 9")
    return pixels, labels


def _from_binary(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


class _ArraysOnly(pickle.Unpickler):
    """A pickle may name any code; these files need nothing but NumPy's arrays."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in (
            "_reconstruct",
            "ndarray",
            "dtype",
            "_frombuffer",
            "scalar",
        ):
            return super().find_class(module, name)
        if (module, name) == ("_codecs", "encode"):  # how Python 2 strings of bytes arrive
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _from_pickle(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    found = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}")
    return np.asarray(found[b"data"], dtype=np.uint8), np.asarray(found[b"labels"], dtype=np.int64)


def _broken(path: Path, rule: str) -> UserError:
    return UserError("data.options.directory", str(path), rule, "Extract the archive again")
