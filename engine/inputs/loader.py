"""loader: prepares each step's part of the data on the host, some steps ahead, in a thread of its own.

Batches depend on nothing but the job and the rank, so workers never talk about data. Data that draw random numbers are
read between the passes: a process has one generator, and from a thread beside them it would be chance whether data or
model (dropout, say) gets which number.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserError
from engine.inputs.batch import Tensors, of_type, on
from engine.inputs.drawn import drawn
from engine.inputs.reading import read
from engine.inputs.sharding import global_batches, micro_batches, shard
from engine.inputs.source import CountingSource, Source
from engine.inputs.task import IGNORED, weight
from engine.plan.job import EvaluationSpec, TrainingSpec
from engine.plan.length import steps_per_epoch, total_steps


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """What one forward pass gets."""

    inputs: Tensors
    targets: Tensors
    samples: int
    """Samples that count; 0 on a worker for which none are left."""
    scale: float = 1.0
    """Factor of its loss: 0 for a filler sample that only keeps a peer's collectives going."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One worker's part of one step."""

    micro_batches: list[MicroBatch]
    global_samples: int
    """Samples of the step over all workers."""
    weight: float
    """Weight of this worker's part (samples, or targets where each sample has several)."""
    global_weight: float
    """Weight of the whole step."""
    divisor: float
    """What the losses of this part are divided by: the whole step's weight, or where workers train alone its own."""
    counted: tuple[int, int]
    """This part and the whole step in numbers that all workers know: targets where the source counts them, else
    samples."""


class Loader:
    """Iterates over the steps of a job, for one worker."""

    def __init__(
        self,
        source: Source,
        *,
        training: TrainingSpec,
        evaluation: EvaluationSpec,
        rank: int,
        workers: int,
        device: torch.device,
        prefetch: int,
        dtype: torch.dtype | None,
        filler: bool,
        alone: bool = False,
    ) -> None:
        """`dtype`: floating inputs are converted to it. `filler`: a worker without samples gets one that does not
        count, for runners whose collectives need every rank. `alone`: workers train by themselves between averages, so
        losses are means over a worker's own samples."""
        self._source = source
        self._count = source.target_count if isinstance(source, CountingSource) else None
        self._training = training
        self._rank = rank
        self._workers = workers
        self._device = device
        self._prefetch = prefetch
        self._dtype = dtype
        self._filler = filler
        self._alone = alone
        self._per_epoch = per_epoch = steps_per_epoch(len(source), training.global_batch)
        self.steps = total_steps(training, len(source))
        """Steps of the whole job."""
        epochs = evaluation.every_epochs
        self._period = evaluation.every_steps or (None if epochs is None else epochs * per_epoch)

    def evaluation_due(self, steps: int) -> bool:
        """Whether an evaluation period ends with step number `steps` (1 is the first)."""
        return self._period is not None and int(steps / self._period) > int((steps - 1) / self._period)

    def samples_of(self, rank: int, first: int, end: int) -> int:
        """Samples of worker `rank` in the steps from `first` to before `end`."""
        return self._samples_before(rank, end) - self._samples_before(rank, first)

    def _samples_before(self, rank: int, step: int) -> int:
        epochs, within = divmod(step, self._per_epoch)
        whole, left = divmod(len(self._source), self._training.global_batch)
        part, last = (
            size // self._workers + (rank < size % self._workers)
            for size in (self._training.global_batch, left)
        )
        return epochs * (whole * part + last) + within * part  # an epoch's last step is its only small one

    def __iter__(self) -> Iterator[StepBatch]:
        return self.batches()

    def batches(self, first: int = 0) -> Iterator[StepBatch]:
        """Of the steps from `first` on."""
        batches = self._from(first)
        if self._prefetch:
            before = drawn()
            batches = _led([next(batches)], batches)
            if drawn() == before:
                batches = _ahead(batches, self._prefetch)
            else:
                print("the data draw random numbers: they are not read ahead", flush=True)
        for _ in range(first, self.steps):
            yield next(batches)

    def _from(self, first: int) -> Iterator[StepBatch]:
        epoch, passed = divmod(first, self._per_epoch)
        while True:
            order = global_batches(len(self._source), self._training.global_batch, self._training.seed, epoch)
            for indices in islice(order, passed, None):
                yield self._part(indices)
            epoch, passed = epoch + 1, 0

    def _part(self, indices: np.ndarray) -> StepBatch:
        mine = shard(indices, self._rank, self._workers)
        parts: list[MicroBatch] = []
        counts: list[tuple[int, int]] = []  # samples, and targets that count
        for piece in micro_batches(mine, self._training.micro_batches):
            empty = len(piece) == 0
            inputs, targets = read(self._source, indices[:1] if empty and self._filler else piece)
            if not empty:
                counts.append((len(piece), self._checked(targets)))
            parts.append(
                MicroBatch(
                    inputs=on(self._device, of_type(self._dtype, inputs)),
                    targets=on(self._device, targets),
                    samples=len(piece),
                    scale=0.0 if empty else 1.0,
                )
            )
        own, whole = self._weight(mine, counts), self._weight(indices, counts)
        count = self._count or len
        return StepBatch(
            micro_batches=parts,
            global_samples=len(indices),
            weight=own,
            global_weight=whole,
            divisor=(own or 1.0) if self._alone else whole,
            counted=(int(count(mine)), int(count(indices))),
        )

    def _weight(self, indices: np.ndarray, seen: list[tuple[int, int]]) -> float:
        """The weight of the samples at `indices`. Unless the source counts for us, all samples weigh the same, as much
        as those `seen` here: (samples, targets that count)."""
        if self._count is not None:
            return float(self._count(indices))
        # Who saw no target here multiplies no gradient by this weight, so any value serves.
        return next((targets / samples for samples, targets in seen), 1.0) * len(indices)

    def _checked(self, targets: Tensors) -> int:
        """How many of the targets count. Raises UserError where only some do and nobody knows the other workers'."""
        found = weight(targets)
        if isinstance(targets, Tensor) and found != targets.numel() and self._count is None:
            raise UserError(
                "data",
                type(self._source).__name__,
                f"has targets that do not count ({IGNORED}), so no worker knows how many the others have that do",
                "Give it a method target_count(indices): how many targets of these samples count",
            )
        return found


def _led(first: list[StepBatch], batches: Iterator[StepBatch]) -> Iterator[StepBatch]:
    """What is in `first`, and then the others. (`itertools.chain` would hold it for as long as the job runs.)"""
    yield first.pop()
    yield from batches


def _ahead(batches: Iterator[StepBatch], depth: int) -> Iterator[StepBatch]:
    """Prepare up to `depth` batches in a thread while the last one is used."""
    ready: queue.Queue[StepBatch | BaseException] = queue.Queue(depth)
    ended = threading.Event()

    def prepare() -> None:
        try:
            for batch in batches:
                if not _offer(batch):
                    return
        except BaseException as error:  # raised again where the batch is asked for
            _offer(error)

    def _offer(item: StepBatch | BaseException) -> bool:
        while not ended.is_set():
            try:
                ready.put(item, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False

    threading.Thread(target=prepare, name="input", daemon=True).start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        ended.set()
