"""Disk: the second tier of memory for tensors on the host, a file in the attempt's folder.

The file has no name: the system gives its room back when the process ends, however it ends. Bytes are written and read
by a thread of its own, in the order in which they were asked for, so that they move while the model computes. They are
written and not mapped: mapped pages would count as the process's own memory, and a full disk would end the process
without a word (SIGBUS), where a write says so. What the system still keeps of the file in memory it gives up when
memory is short. In a folder that itself lies in memory nothing is saved: that is said in the log.

Room in the file is used again for tensors of the same size, of which a step has as many as the one before.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict, deque
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import TrainingError
from engine.state.told import Told
from engine.telemetry.events import Kind
from engine.tensor_bytes import as_bytes

_MOST_PENDING = 64 * 2**20
"""Bytes that wait to be written, at most: they are still in memory."""
_MOST_AT_ONCE = 2**30
"""Bytes of one system call."""


class Stored:
    """Bytes that have left, or are about to."""

    def __init__(self, disk: Disk, values: Tensor, offset: int) -> None:
        """`values`: flat, of bytes; `offset`: where in the file they belong."""
        self._disk = disk
        self._offset = offset
        self._count = values.numel()
        self._torn = False
        """They were written to meanwhile."""
        self._moving = disk.told.leaves(self._count)
        disk.told.transit.begin(self._count)
        self._written = disk.later(self._write, values, values._version)
        self._read: Future[Tensor] | None = None
        disk.pending.append((self._written, self._count))

    def prefetch(self) -> None:
        """They are wanted soon."""
        if self._read is None:
            told = self._disk.told
            told.transit.begin(self._count)
            self._read = self._disk.later(self._bring, told.now_ns())

    def bring(self) -> Tensor:
        """A new flat tensor of them. Raises TrainingError where they could not be kept."""
        self.prefetch()
        assert self._read is not None
        if not self._read.done():
            with self._disk.told.awaiting(self._moving):
                futures.wait([self._read])
        self._written.result()
        if self._torn:
            raise TrainingError(
                "a tensor that is needed in backward was written to after forward had saved it, while it was swapped"
                " out. Let the model write to no tensor that it has computed with"
            )
        return self._read.result()

    def release(self) -> None:
        """Nobody wants them any more."""
        self._read = None
        self._disk.free[self._count].append(self._offset)  # what is asked for later is done later

    def _write(self, values: Tensor, version: int) -> None:
        told, start_ns = self._disk.told, self._disk.told.now_ns()
        try:
            self._disk.write(as_bytes(values), self._offset)
        except OSError as error:
            raise TrainingError(
                f"{self._count} bytes of activations could not be swapped to {self._disk.folder}: {error.strerror}."
                " Make room there, or keep or recompute these layers' activations"
            ) from error
        finally:
            told.transit.end(self._count)
        self._torn = values._version != version
        told.swapped(Kind.SWAP_OUT, self._moving, self._moving.queued_ns, start_ns, told.now_ns())

    def _bring(self, wanted_ns: int) -> Tensor:
        told, start_ns = self._disk.told, self._disk.told.now_ns()
        values = torch.empty(self._count, dtype=torch.uint8)
        self._disk.read(as_bytes(values), self._offset)
        told.transit.end(self._count)
        told.swapped(Kind.SWAP_IN, self._moving, wanted_ns, start_ns, told.now_ns())
        return values


class Disk:
    """The file of one part of a model."""

    def __init__(self, folder: str, device: torch.device, told: Told) -> None:
        self.folder = folder
        self.told = told
        self.free: dict[int, list[int]] = defaultdict(list)
        """Places in the file, by size."""
        self.pending: deque[tuple[Future[None], int]] = deque()
        self._end = 0
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - `close` closes it
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="swap")
        self.later = self._thread.submit
        if filesystem(folder) in ("tmpfs", "ramfs"):
            print(f"warning: {folder} lies in memory, so what is swapped there saves none", flush=True)

    def out(self, values: Tensor) -> Stored:
        """Let flat bytes leave. Blocks while too many others are about to."""
        while self.pending and (
            self.pending[0][0].done() or sum(count for _, count in self.pending) > _MOST_PENDING
        ):
            self.pending.popleft()[0].result()
        free = self.free[values.numel()]
        if free:
            offset = free.pop()
        else:
            offset = self._end
            self._end += values.numel()
        return Stored(self, values, offset)

    def write(self, values: memoryview, offset: int) -> None:
        """All of it."""
        done = 0
        while done < len(values):
            done += os.pwrite(self._file.fileno(), values[done : done + _MOST_AT_ONCE], offset + done)

    def read(self, values: memoryview, offset: int) -> None:
        """All of it. Raises EOFError where it was never written."""
        done = 0
        while done < len(values):
            count = os.preadv(self._file.fileno(), [values[done : done + _MOST_AT_ONCE]], offset + done)
            if not count:
                raise EOFError(f"the file ends {len(values) - done} bytes early")
            done += count

    def close(self) -> None:
        """Nothing is wanted any more."""
        self._thread.shutdown(cancel_futures=True)
        self._file.close()


def filesystem(folder: str) -> str:
    """The kind of file system that a folder is in; empty where the system does not say."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    path = Path(folder).resolve()
    inside = [(len(place), kind) for place, kind in mounts if path.is_relative_to(place)]
    return max(inside, default=(0, ""))[1]
