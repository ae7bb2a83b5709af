"""processes: batches are prepared in processes of the worker's own, which share neither interpreter nor cores with it.

Process k of n prepares the batches k, k + n, k + 2 n, ... of the worker, and the worker takes them in this order. So
who prepares what is known from the start, nobody hands out work, and which batch is where does not depend on time. A
process goes on preparing while two of its batches wait; beyond that it rests. A batch lies in memory that both share,
and only its description goes through the pipe.

Compatible with the thread (`thread.py`): for data that draw no random numbers batches are equal bit by bit, as both
read by `Loader.read`. Data that do draw get other numbers than in the thread that trains, where data and model take
turns at one generator: here generators are seeded for each sample, by the job's seed, the pass over the data and the
sample's index, and for a Source that reads several samples at once by the first one of its micro-batch. So numbers
depend on the job alone and not on how many processes there are; the model's own stay what they are without data that
draw. In the thread such data cannot be read ahead; here they are. A generator that the data keep for themselves nobody
can seed: each process has its own copy of it.

Processes are forked from the worker when the data are loaded and before there is a model, so that they hold the data
with it and nothing twice, and need not be able to load them again; a user's objects may be anything. Each has one
thread. They end with the worker, however it ends (`engine/lifeline.py`); one that ends before its time ends the job.

Cost: a fork per process; two copies in memory of each batch; shared memory for two batches per process. It loses where
preparing takes less time than these copies (about 0.3 ms per MiB), and where no core is idle.

Why not `torch.utils.data.DataLoader`: it keeps batches in /dev/shm, which containers make small; it takes a number
from the model's generator; it raises the death of a process from a signal handler, anywhere in the thread that trains.
"""

from __future__ import annotations

import contextlib
import gc
import math
import mmap
import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from engine.errors import TrainingError, UserError
from engine.inputs.ahead import ahead
from engine.inputs.batch import every
from engine.inputs.source import Source
from engine.lifeline import end_with
from engine.user_code import FOLDERS, explain

if TYPE_CHECKING:
    from engine.inputs.loader import Loader, StepBatch

_SLOTS = 2
"""Batches of one process that may wait."""
_END_S = 5.0
"""So long it may take until a process has ended whose pipe has closed."""
_ALIGNED = 64
"""Bytes: where a tensor in a slot begins."""


def in_processes(loader: Loader, first: int) -> Iterator[StepBatch]:
    """The batches from step `first` on, on the worker's device."""
    assert loader.processes is not None, "a job with processes forks them with its data"
    host = loader.processes.batches(loader.share, first, loader.steps)
    return map(loader.copies.arrived, ahead(map(loader.copies.sent, host), loader.input.prefetch))


class Processes:
    """Those of one worker: they wait for what they are to prepare."""

    def __init__(self, source: Source, count: int) -> None:
        """Fork so many, which hold `source`. Before the calling process uses CUDA, or connects to anybody."""
        sys.stdout.flush()
        lifeline, self._lifeline = os.pipe()
        self._children: list[_Child] = []
        for number in range(count):
            ours, theirs = Pipe()
            slots = [_Slot.make() for _ in range(_SLOTS)]
            pid = os.fork()
            if not pid:
                os.close(self._lifeline)
                _be_child(source, number, count, theirs, lifeline, slots)
            theirs.close()
            self._children.append(_Child(number, count, pid, ours, slots))
        os.close(lifeline)

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [child.pid for child in self._children]

    def batches(self, share: Callable[..., Loader], first: int, end: int) -> Iterator[StepBatch]:
        """The batches of the steps from `first` to before `end`, on the host; once. Raises what a process raised, and
        TrainingError where one has ended."""
        for child in self._children:
            child.tell((share, first))
        for step in range(first, end):
            yield self._children[(step - first) % len(self._children)].take()

    def close(self) -> None:
        """End all of them."""
        os.close(self._lifeline)
        for child in self._children:
            child.close()
        self._children.clear()


@dataclass(frozen=True)
class _Stored:
    """A tensor that lies in a slot."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def seen(self, memory: mmap.mmap) -> Tensor:
        """It, where it lies."""
        flat = torch.frombuffer(memory, dtype=self.dtype, count=math.prod(self.shape), offset=self.offset)
        return flat.as_strided(self.shape, self.strides)


@dataclass
class _Slot:
    """Memory that both sides share: a file without a name, which the process makes longer as it needs it."""

    file: int
    mapped: mmap.mmap | None = None

    @classmethod
    def make(cls) -> _Slot:
        return cls(os.memfd_create("trainyard-batch"))

    def memory(self, size: int) -> mmap.mmap:
        """Of at least so many bytes."""
        if self.mapped is None or len(self.mapped) < size:
            if os.fstat(self.file).st_size < size:
                os.ftruncate(self.file, size)
            self.mapped = mmap.mmap(self.file, os.fstat(self.file).st_size)
        return self.mapped

    def put(self, batch: StepBatch) -> tuple[StepBatch, int]:
        """The batch with its tensors' places in the slot, where they are now, and how many bytes of it they take."""
        size, tensors = 0, []

        def place(tensor: Tensor) -> Any:
            nonlocal size
            if type(tensor) is not Tensor or tensor.layout != torch.strided or not tensor.numel():
                return tensor  # travels through the pipe
            if not _dense(tensor):
                tensor = tensor.contiguous()
            stored = _Stored(size, tensor.dtype, tuple(tensor.shape), tensor.stride())
            tensors.append((stored, tensor))
            size += -(-tensor.nbytes // _ALIGNED) * _ALIGNED
            return stored

        placed = batch.mapped(lambda part: every(place, part))
        for stored, tensor in tensors:
            stored.seen(self.memory(size)).copy_(tensor)
        return placed, size

    def get(self, placed: StepBatch, size: int) -> StepBatch:
        """The batch, in memory of its own."""

        def taken(stored: _Stored) -> Tensor:
            return stored.seen(self.memory(size)).clone()

        return placed.mapped(lambda part: tree_map_only(_Stored, taken, part))

    def close(self) -> None:
        self.mapped = None
        os.close(self.file)


def _dense(tensor: Tensor) -> bool:
    """Whether it takes its memory without a gap, in any order of its dimensions."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return reach + 1 == tensor.numel() and all(tensor.stride())


class _Failed(NamedTuple):
    """A process could not prepare a batch."""

    error: UserError | TrainingError


class _Child:
    """One process, as the worker sees it."""

    def __init__(self, number: int, count: int, pid: int, pipe: Connection, slots: list[_Slot]) -> None:
        self.pid = pid
        self._name = f"process {number} of the {count} that prepare this worker's data"
        self._pipe = pipe
        self._slots = slots
        self._taken = 0
        self._buried = False
        """Its number may be another process's."""

    def tell(self, what: Any) -> None:
        try:
            self._pipe.send_bytes(pickle.dumps(what))
        except OSError as error:
            raise self._lost() from error

    def take(self) -> StepBatch:
        """The next batch that it has prepared."""
        try:
            message = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._lost() from error
        if isinstance(message, _Failed):
            raise message.error
        batch: StepBatch = self._slots[self._taken % _SLOTS].get(*message)
        self._taken += 1
        self.tell(None)  # the slot is free
        return batch

    def _lost(self) -> TrainingError:
        if self._ends_within(_END_S):
            code = self._exit_code()
            how = "has ended" if code is None or code >= 0 else f"was killed by {signal.Signals(-code).name}"
        else:
            how = "lives, and has closed its pipe to the worker"
        return TrainingError(
            f"{self._name} {how}. Where the system kills it for want of memory, use fewer (input.processes) or smaller"
            " batches; where the data's own code ends it, correct that; input.where cpu needs no processes"
        )

    def _ends_within(self, seconds: float) -> bool:
        """Whether it ends, or has ended, also where somebody else has asked for its exit code."""
        if self._buried:
            return True
        try:
            process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([process], [], [], seconds)[0])
        finally:
            os.close(process)

    def _exit_code(self) -> int | None:
        """Of the process, when it has ended; negative: a signal. None where somebody else has asked for it."""
        self._buried = True
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return None

    def close(self) -> None:
        if not self._buried:  # one that somebody has stopped does not see that the lifeline closes
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._exit_code()
        self._pipe.close()
        for slot in self._slots:
            slot.close()


def _be_child(
    source: Source, number: int, count: int, pipe: Connection, lifeline: int, slots: list[_Slot]
) -> None:
    """All that a process does. Never returns: what is above it on the stack belongs to the worker."""
    status = 1
    try:
        end_with(lifeline)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started the worker
        gc.freeze()  # what is here is shared with the worker as long as nobody writes to it
        torch.set_num_threads(1)
        share, first = pickle.loads(pipe.recv_bytes())
        loader: Loader = share(source, seeded=True)
        for turn, batch in enumerate(loader.read(first + number, every=count)):
            if turn >= _SLOTS:
                pipe.recv_bytes()  # that the worker has taken the batch that was in this slot
            pipe.send_bytes(pickle.dumps(slots[turn % _SLOTS].put(batch)))
        while True:
            pipe.recv_bytes()  # until the worker ends this process, or has ended
    except (EOFError, ConnectionError):
        status = 0
    except BaseException as error:
        _tell_failure(pipe, error)
    finally:
        sys.stdout.flush()
        os._exit(status)


def _tell_failure(pipe: Connection, error: BaseException) -> None:
    traceback.print_exception(error)
    if not isinstance(error, UserError | TrainingError):
        error = TrainingError(
            f"the data fail while they are prepared: {explain(error, sorted(FOLDERS))}. Correct this place: with the"
            " same seed the same batch comes in the same step again"
        )
    with contextlib.suppress(OSError):
        pipe.send_bytes(pickle.dumps(_Failed(error)))
