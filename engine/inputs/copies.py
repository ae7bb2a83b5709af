"""Copies of batches from the host to the device that trains: nothing where both are one.

To a CUDA device they go from page-locked memory over a stream of their own. So the host goes on at once, and the copy
runs beside what the device computes; the stream that trains waits for the copy's event before it uses the batch. From
ordinary memory, CUDA first copies to page-locked memory of its own while the host waits. Cost: one more copy on the
host, and page-locked memory for the batches that are under way, which PyTorch keeps for the next ones.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from engine.inputs.batch import every, on

if TYPE_CHECKING:
    from engine.inputs.loader import StepBatch


class Copied(NamedTuple):
    """A batch on its way."""

    batch: StepBatch
    arrives: torch.cuda.Event | None
    """When the device has passed it, the batch is there; None: it is there for who uses the stream of its copy."""


class Copies:
    """From any thread to one that trains."""

    def __init__(self, device: torch.device, *, pinned: bool) -> None:
        self._device = device
        beside = pinned and device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if beside else None

    def sent(self, batch: StepBatch) -> Copied:
        """The batch on the device, soon."""
        if self._stream is None:
            return Copied(batch.mapped(partial(on, self._device)), None)
        with torch.cuda.stream(self._stream):
            moved = batch.mapped(partial(every, self._copied))
            return Copied(moved, self._stream.record_event())

    def _copied(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def arrived(self, copied: Copied) -> StepBatch:
        """The batch, for what the calling thread issues from now on."""
        if copied.arrives is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied.arrives)
            # Its memory belongs to the copies' stream, which may reuse it only when this one has.
            copied.batch.mapped(partial(every, partial(_used, current)))
        return copied.batch


def _used(stream: torch.cuda.Stream, tensor: Tensor) -> Tensor:
    tensor.record_stream(stream)
    return tensor
