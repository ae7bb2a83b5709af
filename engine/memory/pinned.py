"""Pinned: the second tier of memory for tensors on a CUDA device, pinned memory of the host.

Copies run on two streams of their own, one in each direction, so that they run beside each other and beside what is
computed. A copy out begins when what was computed so far is done; whoever computes next waits for a copy in on the
device, and the host waits for nothing. Pinned buffers are used again for tensors of the same size: to pin memory takes
milliseconds.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

from engine.state.told import Told
from engine.telemetry.events import Kind


class Stored:
    """Bytes that have left, or are about to."""

    def __init__(self, pinned: Pinned, values: Tensor) -> None:
        """`values`: flat, of bytes, on the device."""
        self._pinned = pinned
        self._device = values.device
        self._host = pinned.buffer(values.numel())
        self._here: Tensor | None = None
        told = pinned.told
        self._moving = told.leaves(values.numel())
        pinned.outwards.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(pinned.outwards):
            start = told.mark()
            self._host.copy_(values, non_blocking=True)
            told.swapped(Kind.SWAP_OUT, self._moving, self._moving.queued_ns, start, told.mark())
            self._gone = pinned.outwards.record_event()
        told.transit.until(self._gone.query, values.numel())
        values.record_stream(pinned.outwards)
        self._back: torch.cuda.Event | None = None

    def prefetch(self) -> None:
        """They are wanted soon."""
        if self._here is None:
            inwards, told = self._pinned.inwards, self._pinned.told
            wanted_ns = told.now_ns()
            inwards.wait_event(self._gone)
            with torch.cuda.stream(inwards):
                start = told.mark()
                self._here = self._host.to(self._device, non_blocking=True)
                told.swapped(Kind.SWAP_IN, self._moving, wanted_ns, start, told.mark())
                self._back = inwards.record_event()
            told.transit.until(self._back.query, self._moving.bytes)

    def bring(self) -> Tensor:
        """A flat tensor of them, which the current stream may use."""
        self.prefetch()
        assert self._here is not None
        assert self._back is not None
        now = torch.cuda.current_stream(self._device)
        if not self._back.query():
            with self._pinned.told.awaiting(self._moving):
                now.wait_event(self._back)
        self._here.record_stream(now)
        return self._here

    def release(self) -> None:
        """Nobody wants them any more."""
        self._here = None
        self._pinned.free[self._host.numel()].append((self._host, self._back or self._gone))


class Pinned:
    """The pinned buffers of one part of a model."""

    def __init__(self, folder: str, device: torch.device, told: Told) -> None:
        self.told = told
        self.outwards = torch.cuda.Stream(device)
        self.inwards = torch.cuda.Stream(device)
        self.free: dict[int, list[tuple[Tensor, torch.cuda.Event]]] = defaultdict(list)
        """By size, with the end of the last copy from or to each."""

    def out(self, values: Tensor) -> Stored:
        """Let flat bytes leave."""
        return Stored(self, values)

    def buffer(self, count: int) -> Tensor:
        """Pinned memory for so many bytes, to be written to on the stream outwards."""
        if not self.free[count]:
            return torch.empty(count, dtype=torch.uint8, pin_memory=True)
        host, last = self.free[count].pop()
        self.outwards.wait_event(last)
        return host

    def close(self) -> None:
        """Nothing is wanted any more."""
        self.free.clear()
