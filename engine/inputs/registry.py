"""The data sets, listed once and loaded by name. Listing imports no torch; loading does.

To add one: write its file in `datasets/`, its options in `options.py`, and a line in DATASETS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import UnknownNameError
from engine.inputs import options as o
from engine.plan.serde import from_plain

if TYPE_CHECKING:
    from engine.inputs.source import Dataset


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """One data set of the catalogue."""

    name: str
    """As people name it."""
    summary: str
    """One line for a person who chooses."""
    implementation: str
    """`module:function` that takes the options and returns a Dataset."""
    options: type
    """A frozen dataclass with its options."""
    input_shape: tuple[int, ...]
    """Shape of one input sample, with the default options; of the largest, where they differ."""
    classes: int | None
    """Number of classes with the default options; None where the files decide."""
    target_shape: tuple[int, ...] = ()
    """Shape of one sample's targets, with the default options: () is one class per sample."""

    def load(self, values: Mapping[str, Any] | None = None) -> Dataset:
        """Load or prepare the data.

        Raises UserError for an unknown or impossible option, and for files that are missing or broken.
        """
        chosen: Any = from_plain(self.options, dict(values or {}), "data.options")
        module, _, function = self.implementation.partition(":")
        loaded: Dataset = getattr(import_module(module), function)(chosen)
        return loaded


DATASETS: tuple[DatasetEntry, ...] = (
    DatasetEntry(
        name="digits",
        summary="1,797 handwritten digits of 8x8 gray pixels, carried by scikit-learn.",
        implementation="engine.inputs.datasets.digits:load",
        options=o.DigitsOptions,
        input_shape=(1, 8, 8),
        classes=10,
    ),
    DatasetEntry(
        name="synthetic",
        summary="Generated samples of any shape: each class is a fixed pattern under noise.",
        implementation="engine.inputs.datasets.synthetic:load",
        options=o.SyntheticOptions,
        input_shape=(3, 32, 32),
        classes=10,
    ),
    DatasetEntry(
        name="synthetic-tokens",
        summary="Generated pairs of sentences: each word has one translation.",
        implementation="engine.inputs.datasets.tokens:load",
        options=o.SyntheticTokensOptions,
        input_shape=(2, 30),
        classes=7709,
        target_shape=(30,),
    ),
    DatasetEntry(
        name="text",
        summary="Any text for a language model; Python's standard library where none is named.",
        implementation="engine.inputs.datasets.text:load",
        options=o.TextOptions,
        input_shape=(35,),
        classes=10_000,
        target_shape=(35,),
    ),
    DatasetEntry(
        name="text-pairs",
        summary="Translations of different lengths, or the lines of any text with those that follow them.",
        implementation="engine.inputs.datasets.text_pairs:load",
        options=o.TextPairsOptions,
        input_shape=(2, 30),
        classes=40_000,
        target_shape=(30,),
    ),
    DatasetEntry(
        name="cifar10",
        summary="60,000 colour images of 32x32 pixels in 10 classes, from a directory of yours.",
        implementation="engine.inputs.datasets.cifar10:load",
        options=o.Cifar10Options,
        input_shape=(3, 32, 32),
        classes=10,
    ),
    DatasetEntry(
        name="image-folder",
        summary="Your own images: one folder per class.",
        implementation="engine.inputs.datasets.image_folder:load",
        options=o.ImageFolderOptions,
        input_shape=(3, 224, 224),
        classes=None,
    ),
)


def dataset(name: str) -> DatasetEntry:
    """The data set called `name`; raises UnknownNameError listing the known ones."""
    for entry in DATASETS:
        if entry.name == name:
            return entry
    raise UnknownNameError("data.name", name, "data set", [entry.name for entry in DATASETS])


def load(name: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Load the data set called `name` with `options`; see DatasetEntry.load."""
    return dataset(name).load(options)
