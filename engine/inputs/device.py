"""device: samples are read on the host, some steps ahead, and finished on the device that trains, in its stream.

For data in two stages (`StagedSource`): what is stored of a sample, bytes, is read, decoded and copied, and what makes
inputs of it (cutting out, flipping, standardizing) are tensor operations behind one another on the device. They are
the same operations as on the host, so that inputs are equal bit by bit.

It wins where the host is what limits: images travel as bytes, a quarter of float32, and the host does nothing but
decode. It loses where the device is what limits, as its time is taken from training; on the CPU the thread that trains
does it, which is papers 002's badly placed preprocessing (section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.inputs.thread import read_ahead

if TYPE_CHECKING:
    from engine.inputs.loader import Loader, StepBatch


def on_device(loader: Loader, first: int) -> Iterator[StepBatch]:
    """The batches from step `first` on. Each is finished when it is asked for."""
    return (
        loader.finished(loader.copies.arrived(copied)) for copied in read_ahead(loader, first, finish=False)
    )
