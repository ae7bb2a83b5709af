"""Offload: what an optimizer keeps of its parameters is in a second tier of memory, and updates run there.

Ren et al., "ZeRO-Offload" (2021), section 4. Parameters are updated one after the other, each as without this,

    from a CUDA device   gradient and parameter to the host, the update there, the parameter back
    on the host          the update in place; what is kept is a mapped file, whose pages are let go after it

since on the host, device and host are one memory: the second tier is then a disk, as for what is swapped (`disk.py`).
That writes and reads; this maps (`engine/mapped.py`), because an optimizer changes in place what it keeps, and a copy
of it in memory would be what is to be spared.

Tensors of fewer than OFFLOADED_BYTES stay where they are. What is kept of a parameter is made in memory, and then
moved: by most optimizers with the parameter's first update, of one at a time; by those that begin with a value
(Adagrad) when they are made, of all of their parameters, before there are gradients and activations.

Costs, for each step, the state read and written once through the file's pages; from a device, the gradients out and the
parameters out and in. The host keeps a pinned twin of each parameter of a device. It loses where a pass takes less time
than the update through a disk, and where activations, not the optimizer, take the memory.

Unlike ZeRO-Offload's, parameters on a device have the type that is updated, so that these are no master copies of them;
copies are not laid beside backward, and no update is delayed by a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.mapped import MappedFile, let_go
from engine.memory.disk import filesystem
from engine.plan.updates import OFFLOADED_BYTES, OptimizerSpec
from engine.state.updates import Away


class OnDisk:
    """Of parameters on the host. Safe to use from several threads, each with parameters of its own."""

    def __init__(self, folder: str) -> None:
        """`folder`: one on a disk."""
        self._file = MappedFile(folder)
        self._rooms: dict[tuple[int, str], Tensor] = {}
        """By identity of a parameter, and slot."""

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
                state[slot] = self._moved((id(parameter), slot), value)
                let_go(state[slot])

    def _moved(self, key: tuple[int, str], value: Tensor) -> Tensor:
        room = self._rooms.get(key)
        if room is value:
            return room
        if room is None or (room.shape, room.dtype) != (value.shape, value.dtype):
            room = self._rooms[key] = self._room(value)
        with torch.no_grad():
            room.copy_(value)
        return room

    def _room(self, value: Tensor) -> Tensor:
        """For one like this, as the optimizer has laid it out."""
        file = self._file
        begins = not file.reserved
        try:
            found = file.room(value, as_laid_out=True)
        except OSError as error:
            raise TrainingError(
                f"{value.nbytes} bytes of the optimizer's state could not be offloaded to {file.folder}:"
                f" {error.strerror}. Make room there, or leave optimizer.offload out"
            ) from error
        if begins and filesystem(file.folder) in ("tmpfs", "ramfs"):
            print(f"warning: {file.folder} lies in memory: what is offloaded there saves none", flush=True)
        return found


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
