"""Options of the data sets, apart from the code that reads them: the service lists them without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from engine.catalogue import STRICT
from engine.errors import UserError, require_within

MOST_OF_A_SAMPLE = 2**24
"""Values, e.g. 3 x 2,048 x 2,048 and more."""
_SIZES = {
    "classes": (1, 2**20),
    "vocabulary": (1, 2**20),
    "source_vocabulary": (1, 2**20),
    "target_vocabulary": (2, 2**20),
    "length": (1, 2**16),
    "steps": (1, 2**16),
    "size": (1, 2**12),
    "shift": (0, 2**10),
    "samples": (1, 2**40),
    "test_samples": (1, 2**40),
}
"""The smallest and the largest of every option that says how much there is."""


def _check_share(test_share: float, default: float) -> None:
    if not 0.01 <= test_share <= 0.9:
        raise UserError("test_share", test_share, "must be from 0.01 to 0.9", f"{default} is the default")


@dataclass(frozen=True, kw_only=True)
class DigitsOptions:
    """Of the handwritten digits."""

    __pydantic_config__ = STRICT

    test_share: float = 0.2
    """Share of each class that is kept for testing."""

    def __post_init__(self) -> None:
        _check_share(self.test_share, 0.2)


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Of the generated data."""

    __pydantic_config__ = STRICT

    shape: tuple[int, ...] | None = None
    """Shape of one sample, e.g. channels, height, width. Null: the model's own where it is of the catalogue, else
    3 x 32 x 32."""
    classes: int | None = None
    """Number of classes. Null: the model's own where it is of the catalogue, else 10."""
    samples: int = 1024
    """Training samples."""
    test_samples: int = 256
    """Test samples."""
    signal: float = 1.0
    """Strength of a class's pattern against noise of strength 1: 0 cannot be learned."""
    seed: int = 0
    """Another seed is another data set."""

    def __post_init__(self) -> None:
        shape = self.sample_shape
        if not shape or min(shape) < 1:
            raise UserError("shape", list(shape), "needs one or more positive sizes", "Example: [3, 32, 32]")
        if math.prod(shape) > MOST_OF_A_SAMPLE:
            rule = f"has more than {MOST_OF_A_SAMPLE:,} values"
            raise UserError("shape", list(shape), rule, "Use smaller sizes")
        _check_sizes(classes=self.class_count, samples=self.samples, test_samples=self.test_samples)
        if not 0 <= self.signal < float("inf"):
            raise UserError("signal", self.signal, "must be zero or greater", "1 is the default")
        if not 0 <= self.seed < 2**32:
            raise UserError("seed", self.seed, "must be from 0 to 4294967295", "Use a small number")

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape, also where nothing says it."""
        return (3, 32, 32) if self.shape is None else self.shape

    @property
    def class_count(self) -> int:
        """The number of classes, also where nothing says it."""
        return 10 if self.classes is None else self.classes


@dataclass(frozen=True, kw_only=True)
class SyntheticTokensOptions:
    """Of the generated pairs of sentences."""

    __pydantic_config__ = STRICT

    source_vocabulary: int = 17191
    """Words of the source language."""
    target_vocabulary: int = 7709
    """Words of the target language, the one that begins a sentence included."""
    length: int = 30
    """Words of every sentence, in both languages."""
    samples: int = 1024
    """Training samples."""
    test_samples: int = 256
    """Test samples."""
    seed: int = 0
    """Another seed is another data set."""

    def __post_init__(self) -> None:
        _check_sizes(
            source_vocabulary=self.source_vocabulary,
            target_vocabulary=self.target_vocabulary,
            length=self.length,
            samples=self.samples,
            test_samples=self.test_samples,
        )
        if not 0 <= self.seed < 2**32:
            raise UserError("seed", self.seed, "must be from 0 to 4294967295", "Use a small number")


@dataclass(frozen=True, kw_only=True)
class Cifar10Options:
    """Of CIFAR-10 on disk."""

    __pydantic_config__ = STRICT

    directory: str
    """Folder with the extracted batch files, of the Python or of the binary version, as an absolute path on
    the workers' machines."""
    shift: int = 0
    """Training images are moved by up to so many pixels, at random in both directions; what comes in is black. 4 is
    usual, 0 leaves them where they are."""
    flip: bool = False
    """Half of the training images, at random, are flipped left to right."""
    normalize: bool = True
    """Standardize each channel; false: values from 0 to 1."""

    def __post_init__(self) -> None:
        _check_sizes(shift=self.shift)
        if self.shift > 32:
            raise UserError("shift", self.shift, "moves an image of 32 pixels out of sight", "4 is usual")


@dataclass(frozen=True, kw_only=True)
class ImageFolderOptions:
    """Of a folder with one sub-folder of images per class."""

    __pydantic_config__ = STRICT

    directory: str
    """Folder that holds `train/<class>/*` and `test/<class>/*`, as an absolute path on the
    workers' machines."""
    size: int = 224
    """Images are scaled and cropped to this many pixels in height and width."""
    shift: int = 0
    """Images are scaled to twice so many pixels more, of which training sees a window of `size` at a random place and
    the test the middle. 16 is usual for 224 pixels, 0 leaves nothing to chance."""
    flip: bool = False
    """Half of the training images, at random, are flipped left to right."""
    normalize: bool = True
    """Standardize each channel as ImageNet's; false: values from 0 to 1."""

    def __post_init__(self) -> None:
        _check_sizes(size=self.size, shift=self.shift)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Of text for a language model."""

    __pydantic_config__ = STRICT

    paths: tuple[str, ...] = ()
    """Files, and folders with all that is below them, as absolute paths on the workers' machines. None: the sources of
    Python's standard library."""
    pattern: str = "*"
    """Of the files in a folder, and of the standard library's, those whose names match, e.g. `*.txt`."""
    vocabulary: int = 10_000
    """Words, trained on the text: as many as the model has."""
    steps: int = 35
    """Words of a sample."""
    test_share: float = 0.02
    """Share of the samples that is kept for testing, spread evenly over the text."""

    def __post_init__(self) -> None:
        _check_text(self.paths, "paths", self.pattern)
        _check_share(self.test_share, 0.02)
        _check_sizes(vocabulary=self.vocabulary, steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class TextPairsOptions:
    """Of pairs of sentences for a translation model."""

    __pydantic_config__ = STRICT

    paths: tuple[str, ...] = ()
    """Files, and folders with all that is below them, as absolute paths on the workers' machines. None: the sources of
    Python's standard library."""
    targets: tuple[str, ...] = ()
    """Files or folders whose lines are the translations of those of `paths`, line by line. None: each line's
    translation is the line that follows it."""
    pattern: str = "*"
    """Of the files in a folder, and of the standard library's, those whose names match, e.g. `*.txt`."""
    vocabulary: int = 40_000
    """Words of both sides together, trained on the text: as many as the model has."""
    length: int = 30
    """Most words of a sentence, its end included; longer pairs are left out."""
    test_share: float = 0.02
    """Share of the pairs that is kept for testing, spread evenly over the text."""

    def __post_init__(self) -> None:
        _check_text(self.paths, "paths", self.pattern)
        _check_text(self.targets, "targets", self.pattern)
        if self.targets and not self.paths:
            raise UserError("targets", list(self.targets), "needs `paths` to translate", "Name both sides")
        _check_share(self.test_share, 0.02)
        _check_sizes(vocabulary=self.vocabulary)
        require_within("length", self.length, 2, _SIZES["length"][1])  # a word, and the sentence's end


def _check_text(paths: tuple[str, ...], field: str, pattern: str) -> None:
    for path in paths:
        if not Path(path).is_absolute():
            raise UserError(field, path, "is not an absolute path", "Begin it with /")
    if not pattern or "/" in pattern:
        raise UserError("pattern", pattern, "must be the pattern of a file's name", "Example: *.txt")


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        require_within(name, value, *_SIZES[name])
