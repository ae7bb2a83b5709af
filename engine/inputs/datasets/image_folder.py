"""image-folder: your own images, `train/<class>/*` and `test/<class>/*`; the folders' names are the classes.

Each image is scaled so that its shorter side fits, cropped at the centre, and standardized with the usual
ImageNet mean and deviation. Nothing is kept in memory; every batch is read and decoded again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs.options import ImageFolderOptions
from engine.inputs.source import Dataset

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class ImageFilesSource:
    """Image files, decoded when they are read."""

    def __init__(self, files: list[tuple[Path, int]], size: int, pillow: Any) -> None:
        self._files = files
        self._size = size
        self._pillow = pillow

    def __len__(self) -> int:
        return len(self._files)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch. Raises UserError naming a file that cannot be decoded."""
        inputs = np.empty((len(indices), 3, self._size, self._size), dtype=np.float32)
        targets = np.empty(len(indices), dtype=np.int64)
        for row, index in enumerate(indices.tolist()):
            path, targets[row] = self._files[index]
            inputs[row] = self._decode(path)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def _decode(self, path: Path) -> np.ndarray:
        size = (self._size, self._size)
        try:
            with self._pillow.Image.open(path) as image:
                fitted = self._pillow.ImageOps.fit(image.convert("RGB"), size)
        except OSError as error:
            raise UserError(
                "data.options.directory", str(path), f"is no readable image: {error}", "Remove it"
            ) from error
        pixels = np.asarray(fitted, dtype=np.float32) / 255
        return ((pixels - _MEAN) / _DEVIATION).transpose(2, 0, 1)


def load(options: ImageFolderOptions) -> Dataset:
    """Inputs (n, 3, size, size) float32, targets (n,) int64: the place of the class among the sorted names.

    Raises UserError where Pillow is not installed, and for folders that are missing, empty or do not agree.
    """
    try:
        import PIL.Image  # noqa: PLC0415 - an extra: only this data set needs it
        import PIL.ImageOps  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise UserError(
            "data.name", "image-folder", "needs Pillow to decode images", "pip install pillow"
        ) from error
    classes = _classes(Path(options.directory), "train")
    unknown = sorted(set(_classes(Path(options.directory), "test")) - set(classes))
    if unknown:
        raise UserError(
            "data.options.directory",
            options.directory,
            f"test/ has classes that train/ has not: {', '.join(unknown[:10])}",
            "Give every class a folder in train/",
        )
    train, test = (
        ImageFilesSource(_files(Path(options.directory) / part, classes), options.size, PIL)
        for part in ("train", "test")
    )
    return Dataset(
        name="image-folder",
        train=train,
        test=test,
        input_shape=(3, options.size, options.size),
        classes=len(classes),
    )


def _classes(directory: Path, part: str) -> list[str]:
    folder = directory / part
    names = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    if not names:
        raise UserError(
            "data.options.directory",
            str(directory),
            f"has no {part}/ with one folder of images per class",
            f"Lay the images out as {part}/<class>/<image>",
        )
    return names


def _files(folder: Path, classes: list[str]) -> list[tuple[Path, int]]:
    files = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in _SUFFIXES
    ]
    if not files:
        raise UserError(
            "data.options.directory", str(folder), "holds no images", f"Known: {', '.join(sorted(_SUFFIXES))}"
        )
    return files
