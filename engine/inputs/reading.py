"""Reading samples: what a source answers is checked where it comes in."""

from __future__ import annotations

import numpy as np

from engine.errors import UserError
from engine.inputs.batch import Tensors, are_tensors, samples_of, shown
from engine.inputs.source import Source, StagedSource, Turn


def read(
    source: Source, indices: np.ndarray, turn: Turn | None = None, *, finish: bool = True
) -> tuple[Tensors, Tensors]:
    """The inputs and targets of the samples at `indices`, in that pass over the data where one is given. `finish`:
    False leaves the second stage of a StagedSource to who reads. Raises UserError where they are anything else."""
    found = source.stored(indices, turn) if isinstance(source, StagedSource) else source.batch(indices)
    if not (isinstance(found, (tuple, list)) and len(found) == 2):
        raise _refuse(source, f"answers a {type(found).__name__} for a batch, not the pair (inputs, targets)")
    inputs, targets = found
    for name, part in (("inputs", inputs), ("targets", targets)):
        if not are_tensors(part):
            raise _refuse(
                source, f"answers {name} that are no tensors, alone or in dictionaries, tuples or lists"
            )
        counts = samples_of(part)
        if counts != {len(indices)}:
            raise _refuse(source, f"answers {name} of shapes {shown(part)} for {len(indices)} samples")
    return (finished(source, inputs) if finish else inputs), targets


def finished(source: Source, stored: Tensors) -> Tensors:
    """The inputs of what was read unfinished. Raises UserError where they are anything else."""
    if not isinstance(source, StagedSource):
        return stored
    inputs = source.finished(stored)
    if not are_tensors(inputs) or samples_of(inputs) != samples_of(stored):
        raise _refuse(source, "finishes inputs to something else than as many samples")
    return inputs


def _refuse(source: Source, rule: str) -> UserError:
    return UserError(
        "data",
        type(source).__name__,
        rule,
        "Let batch(indices) answer inputs and targets whose first dimension is that of the samples",
    )
