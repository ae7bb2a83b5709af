"""Offload: what an optimizer keeps of its parameters is in a second tier of memory, and updates run there.

Ren et al., "ZeRO-Offload" (2021), section 4. Parameters are updated one after the other, each as without this,

    from a CUDA device   gradient and parameter to the host, the update there, the parameter back
    on the host          the update in place; what is kept is a mapped file, whose pages are let go after it

since on the host, device and host are one memory: the second tier is then a disk, as for what is swapped (`disk.py`).
That writes and reads; this maps, because an optimizer changes in place what it keeps, and a copy of it in memory would
be what is to be spared. A mapped page counts as the process's own as long as it is touched, so each parameter's are let
go when it is updated: the system keeps them as it keeps any file, and gives them up when memory is short. The file's
room is reserved before anything is written to it, so that a full disk is an error with words and no SIGBUS. The file
has no name: its room is given back when the process ends, however it ends.

Tensors of fewer than OFFLOADED_BYTES stay where they are. The first update of a parameter makes what is kept in memory,
and moves it then: of one parameter at a time.

Costs, for each step, the state read and written once through the file's pages; from a device, the gradients out and the
parameters out and in. The host keeps a pinned twin of each parameter of a device. It loses where a pass takes less time
than the update through a disk, and where activations, not the optimizer, take the memory.

Unlike ZeRO-Offload's, parameters on a device have the type that is updated, so that these are no master copies of them;
copies are not laid beside backward, and no update is delayed by a step.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.memory.disk import filesystem
from engine.plan.updates import OFFLOADED_BYTES, OptimizerSpec
from engine.state.updates import Away

_GROWTH = 2**20
"""Bytes that the file grows by, at least; and by a quarter of what it has, so that maps stay few: each takes a
descriptor."""


class _Room(NamedTuple):
    """A tensor in the file, and where its pages are."""

    tensor: Tensor
    map: mmap.mmap
    start: int
    size: int


class OnDisk:
    """Of parameters on the host. Safe to use from several threads, each with parameters of its own."""

    def __init__(self, folder: str) -> None:
        """`folder`: one on a disk."""
        self._folder = folder
        self._lock = threading.Lock()
        self._rooms: dict[tuple[int, str], _Room] = {}
        """By identity of a parameter, and slot."""
        self._file: Any = None
        """From when something is first kept."""
        self._map: mmap.mmap | None = None
        self._begin = self._end = 0
        """Of what is free in the last map."""
        self._reserved = 0

    def twin(self, parameter: Tensor) -> Tensor:
        """See Away."""
        return parameter

    def updating(self, parameter: Tensor, twin: Tensor) -> AbstractContextManager[None]:
        """See Away."""
        return nullcontext()

    def keep(self, parameter: Tensor, state: dict[str, Any]) -> None:
        """See Away. Raises TrainingError where there is no room on the disk."""
        for slot, value in state.items():
            if isinstance(value, Tensor) and value.nbytes >= OFFLOADED_BYTES:
                room = self._moved((id(parameter), slot), value)
                state[slot] = room.tensor
                if hasattr(mmap, "MADV_DONTNEED"):
                    room.map.madvise(mmap.MADV_DONTNEED, room.start, room.size)

    def _moved(self, key: tuple[int, str], value: Tensor) -> _Room:
        room = self._rooms.get(key)
        if room is not None and room.tensor is value:
            return room
        if room is None or (room.tensor.shape, room.tensor.dtype) != (value.shape, value.dtype):
            room = self._rooms[key] = self._room(value)
        with torch.no_grad():
            room.tensor.copy_(value)
        return room

    def _room(self, value: Tensor) -> _Room:
        """For one like this."""
        size = _rounded(value.nbytes)
        with self._lock:
            if self._map is None or self._end - self._begin < size:
                self._grow(_rounded(max(size, _GROWTH, self._reserved // 4)))
            assert self._map is not None
            start = self._begin
            self._begin += size
            flat = torch.frombuffer(self._map, dtype=value.dtype, count=value.numel(), offset=start)
            dense = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
            laid_out = flat.view(value.shape)
            if dense == value.numel():  # as the optimizer has laid it out
                laid_out = flat.as_strided(value.shape, value.stride())
            return _Room(laid_out, self._map, start, size)

    def _grow(self, size: int) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - as long as this
                if filesystem(self._folder) in ("tmpfs", "ramfs"):
                    print(
                        f"warning: {self._folder} lies in memory: what is offloaded there saves none",
                        flush=True,
                    )
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), self._reserved, size)
            else:
                self._file.truncate(self._reserved + size)
        except OSError as error:
            raise TrainingError(
                f"{size} bytes of the optimizer's state could not be offloaded to {self._folder}: {error.strerror}."
                " Make room there, or leave optimizer.offload out"
            ) from error
        self._map = mmap.mmap(self._file.fileno(), size, offset=self._reserved)
        self._begin, self._end = 0, size
        self._reserved += size


class OnHost:
    """Of parameters on a CUDA device. This has never run on one."""

    def twin(self, parameter: Tensor) -> Tensor:
        """See Away."""
        pinned = parameter.is_cuda
        return Parameter(torch.empty_like(parameter, device="cpu", requires_grad=False, pin_memory=pinned))

    @contextmanager
    def updating(self, parameter: Tensor, twin: Tensor) -> Iterator[None]:
        """See Away."""
        gradient = parameter.grad
        with torch.no_grad():
            twin.copy_(parameter)  # an average, or a checkpoint, may have written to it
        twin.grad = None if gradient is None else gradient.to(twin.device)
        try:
            yield
        finally:
            twin.grad = None
        if gradient is not None:
            with torch.no_grad():
                parameter.copy_(twin, non_blocking=True)

    def keep(self, parameter: Tensor, state: dict[str, Any]) -> None:
        """See Away: what is kept of a twin is on the host."""


def away(optimizer: OptimizerSpec, folder: str, device: torch.device) -> Away | None:
    """Where the state of a job's optimizer is, of parameters on `device`; None: beside them. `folder`: on a disk."""
    if not optimizer.offload:
        return None
    return OnHost() if device.type == "cuda" else OnDisk(folder)


def in_memory(state: Mapping[str, Tensor], optimizer: OptimizerSpec) -> list[Tensor]:
    """Of what an optimizer on the host keeps, what is in no file."""
    return [value for value in state.values() if not (optimizer.offload and value.nbytes >= OFFLOADED_BYTES)]


def _rounded(count: int) -> int:
    """Bytes of whole pages."""
    return -(-count // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
