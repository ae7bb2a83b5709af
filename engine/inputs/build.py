"""From a job's data specification to a data set, and to the task that is learned from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import default_collate

from engine.errors import UserError
from engine.inputs import registry
from engine.inputs.batch import Tensors, are_tensors, first, shape
from engine.inputs.drawn import taken_back
from engine.inputs.entrypoint import call, load_module
from engine.inputs.source import Dataset, Source
from engine.inputs.task import Task, UserLoss, classification
from engine.plan.job import SourceSpec
from engine.user_code import explain


class MapStyleSource:
    """A torch map-style data set of (input, target) as a Source; either may be several tensors in containers."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self.before_item: Callable[[int], object] = lambda index: None
        """See ItemSource."""

    def __len__(self) -> int:
        return len(self._items)

    def batch(self, indices: np.ndarray) -> tuple[Tensors, Tensors]:
        """See Source.batch."""
        chosen = indices.tolist() if len(indices) else [0]  # an empty batch still needs shapes and types
        found = []
        for index in chosen:
            self.before_item(index)
            found.append(self._items[index])
        inputs, targets = default_collate(found)
        return (inputs, targets) if len(indices) else (first(inputs, 0), first(targets, 0))


class CountingMapStyleSource(MapStyleSource):
    """The same, of a data set that says how many of its targets count."""

    def target_count(self, indices: np.ndarray) -> int:
        """See CountingSource.target_count."""
        return int(self._items.target_count(indices))


def load_dataset(source: SourceSpec) -> Dataset:
    """Load the data that the job names; see `_load`. Raises UserError also where either part is empty."""
    found = _load(source)
    for part, samples in (("training", len(found.train)), ("test", len(found.test))):
        if samples == 0:
            raise UserError(
                "data", found.name, f"its {part} part has no samples", "Give at least one sample to each part"
            )
    return found


def _load(source: SourceSpec) -> Dataset:
    """Load the data that the job names, or call its entry point.

    An entry point returns a Dataset, or a pair (train, test) of Sources or torch map-style data sets. Raises
    UserError (see `entrypoint.load` and `DatasetEntry.load`).
    """
    if source.name is not None:
        return registry.load(source.name, source.options)
    assert source.entrypoint is not None
    found = call(source, "data")
    if isinstance(found, Dataset):
        return found
    if not (isinstance(found, tuple | list) and len(found) == 2):  # a list: torch's random_split answers one
        raise _refuse(source, f"returned a {type(found).__name__}, not a pair (train, test) of data sets")
    train, test = (_as_source(part, source) for part in found)
    try:
        with taken_back():  # the model's first values are those that a plain loop draws
            inputs, targets = train.batch(np.arange(1))
    except Exception as error:
        reason = explain(error, [source.directory])
        raise _refuse(source, f"its first training sample cannot be read: {reason}") from error
    for name, part in (("inputs", inputs), ("targets", targets)):
        if not are_tensors(part):
            raise _refuse(
                source, f"its {name} are no tensors or numbers, alone or in dictionaries, tuples or lists"
            )
    return Dataset(name=source.entrypoint, train=train, test=test, input_shape=shape(inputs), classes=None)


def find_task(model: SourceSpec, data: SourceSpec) -> Task:
    """A `loss` function beside the model's or the data's entry point, else classification."""
    for source, field in ((model, "model"), (data, "data")):
        if source.entrypoint is not None and source.directory is not None:
            loss = getattr(load_module(source.entrypoint, source.directory, field), "loss", None)
            if callable(loss):
                return UserLoss(loss, source.entrypoint)
    return classification


def _as_source(part: Any, source: SourceSpec) -> Source:
    if hasattr(part, "__len__") and hasattr(part, "batch"):
        source_like: Source = part
        return source_like
    if hasattr(part, "__len__") and hasattr(part, "__getitem__"):
        return CountingMapStyleSource(part) if hasattr(part, "target_count") else MapStyleSource(part)
    raise _refuse(source, f"a {type(part).__name__} has no length, or neither batch(indices) nor items")


def _refuse(source: SourceSpec, rule: str) -> UserError:
    return UserError(
        "data.entrypoint",
        source.entrypoint,
        rule,
        "Return (train, test): two map-style data sets of torch, such as random_split's answer; a Dataset of"
        " engine.inputs.source does, too",
    )
