"""thread: each batch is prepared on the host, some steps ahead, in a thread of the worker.

The thread and the one that trains share the interpreter and, on the CPU, the cores: reading, decoding and NumPy let go
of the interpreter, a user's own Python code does not. Where preparing takes longer than a step, or is Python, use
`processes.py`.

Data that draw random numbers, or whose code says that they may (`may_draw.py`), are read between the passes: a process
has one generator, and from a thread beside them it would be chance whether data or model (dropout, say) gets which
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.inputs.ahead import ahead
from engine.inputs.drawn import drawn
from engine.inputs.may_draw import may_draw

if TYPE_CHECKING:
    from engine.inputs.copies import Copied
    from engine.inputs.loader import Loader, StepBatch


def in_thread(loader: Loader, first: int) -> Iterator[StepBatch]:
    """The batches from step `first` on, on the worker's device."""
    batches = read_ahead(loader, first)
    return map(loader.copies.arrived, batches)


def read_ahead(loader: Loader, first: int, *, finish: bool = True) -> Iterator[Copied]:
    """Batches read on the host and on their way to the device; `finish`: see `Loader.read`."""
    batches: Iterator[Copied] = map(loader.copies.sent, loader.read(first, finish=finish))
    if not loader.input.prefetch:
        return batches
    before = drawn()
    batches = _led([next(batches)], batches)
    drew = drawn() != before
    how = None if drew else may_draw(loader.source)
    if drew or how is not None:
        says = "draw random numbers" if drew else f"may draw random numbers ({how})"
        print(f"the data {says}: they are not read ahead", flush=True)
        return batches
    return ahead(batches, loader.input.prefetch)


def _led(first: list[Copied], batches: Iterator[Copied]) -> Iterator[Copied]:
    """What is in `first`, and then the others. (`itertools.chain` would hold it for as long as the job runs.)"""
    yield first.pop()
    yield from batches
