"""image-folder: your own images, `train/<class>/*` and `test/<class>/*`; the folders' names are the classes.

Each image is decoded by Pillow, scaled so that its shorter side fits, cropped at the centre, and standardized with the
usual ImageNet mean and deviation (`engine/inputs/images.py`, with what a job has changed at random). Nothing is kept in
memory; every batch is read and decoded again, on the host: some milliseconds for each image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs.images import ImageStage
from engine.inputs.options import ImageFolderOptions
from engine.inputs.source import Dataset, Turn

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)


class ImageFilesSource:
    """Image files, decoded when they are read."""

    def __init__(self, files: list[tuple[Path, int]], stage: ImageStage, pillow: Any) -> None:
        self._files = files
        self._stage = stage
        self._size = stage.size + 2 * stage.shift
        self._pillow = pillow

    def __len__(self) -> int:
        return len(self._files)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """See Source.batch. Raises UserError naming a file that cannot be decoded."""
        stored, targets = self.stored(indices, None)
        return self.finished(stored), targets

    def stored(self, indices: np.ndarray, turn: Turn | None) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """See StagedSource.stored: bytes, and the windows to cut out of them. Raises as `batch` does."""
        images = np.empty((len(indices), 3, self._size, self._size), dtype=np.uint8)
        targets = np.empty(len(indices), dtype=np.int64)
        for row, index in enumerate(indices.tolist()):
            path, targets[row] = self._files[index]
            images[row] = self._decode(path)
        return (torch.from_numpy(images), self._stage.draw(indices, turn)), torch.from_numpy(targets)

    def finished(self, stored: tuple[Tensor, Tensor]) -> Tensor:
        """See StagedSource.finished."""
        return self._stage(*stored)

    def _decode(self, path: Path) -> np.ndarray:
        try:
            with self._pillow.Image.open(path) as image:
                fitted = self._pillow.ImageOps.fit(image.convert("RGB"), (self._size, self._size))
        except OSError as error:
            raise UserError(
                "data.options.directory", str(path), f"is no readable image: {error}", "Remove it"
            ) from error
        return np.asarray(fitted, dtype=np.uint8).transpose(2, 0, 1)


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
    stage = ImageStage(
        size=options.size,
        scale=255,
        mean=_MEAN if options.normalize else None,
        deviation=_DEVIATION if options.normalize else None,
        shift=options.shift,
        flip=options.flip,
    )
    train, test = (
        ImageFilesSource(_files(Path(options.directory) / part, classes), stage, PIL)
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
