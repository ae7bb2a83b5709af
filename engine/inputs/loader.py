"""loader: each step's part of the data, for one worker, prepared wherever the job says (`engine/axes/inputs.py`).

Batches depend on nothing but the job and the rank, so workers never talk about data. What is in them does not depend on
the place either, bit by bit, unless the data draw random numbers of their own (`thread.py`, `processes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.axes.inputs import INPUT
from engine.errors import UserError
from engine.inputs.batch import Tensors, of_type
from engine.inputs.copies import Copies
from engine.inputs.reading import finished, read
from engine.inputs.seeding import seed_by
from engine.inputs.sharding import global_batches, micro_batches, shard
from engine.inputs.source import CountingSource, ItemSource, Source, Turn
from engine.inputs.task import IGNORED, weight
from engine.plan.inputs import Input
from engine.plan.job import EvaluationSpec, TrainingSpec
from engine.plan.length import steps_per_epoch, total_steps

if TYPE_CHECKING:
    from engine.inputs.processes import Processes


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

    def mapped(self, function: Callable[[Tensors], Tensors]) -> StepBatch:
        """The same with what `function` makes of each pass's inputs and targets."""

        def of(micro: MicroBatch) -> MicroBatch:
            return replace(micro, inputs=function(micro.inputs), targets=function(micro.targets))

        return replace(self, micro_batches=[of(micro) for micro in self.micro_batches])


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
        input: Input,
        dtype: torch.dtype | None,
        filler: bool,
        alone: bool = False,
        processes: Processes | None = None,
        seeded: bool = False,
    ) -> None:
        """`dtype`: floating inputs are converted to it. `filler`: a worker without samples gets one that does not
        count, for runners whose collectives need every rank. `alone`: workers train by themselves between averages, so
        losses are means over a worker's own samples. `processes`: those of a job that has some.
        `seeded`: this process does nothing but read, so that its generators are seeded for each sample."""
        self.input = input
        """Where the batches are prepared."""
        self.processes = processes
        self.copies = Copies(device, pinned=input.pinned)
        """How they get to the device."""
        self.share = partial(
            Loader,
            training=training,
            evaluation=evaluation,
            rank=rank,
            workers=workers,
            device=torch.device("cpu"),
            input=Input(),
            dtype=dtype,
            filler=filler,
            alone=alone,
        )
        """Called with the same source, a loader of the same batches for the host: what another process is told."""
        self.source = source
        """Where samples are read."""
        self._count = source.target_count if isinstance(source, CountingSource) else None
        self._training = training
        self._rank = rank
        self._workers = workers
        self._dtype = dtype
        self._filler = filler
        self._alone = alone
        self._seeded = seeded
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
        whole, left = divmod(len(self.source), self._training.global_batch)
        part, last = (
            size // self._workers + (rank < size % self._workers)
            for size in (self._training.global_batch, left)
        )
        return epochs * (whole * part + last) + within * part  # an epoch's last step is its only small one

    def __iter__(self) -> Iterator[StepBatch]:
        return self.batches()

    def batches(self, first: int = 0) -> Iterator[StepBatch]:
        """Of the steps from `first` on, on the worker's device."""
        if first < self.steps:
            yield from INPUT[self.input.where].load()(self, first)

    def read(self, first: int, *, every: int = 1, finish: bool = True) -> Iterator[StepBatch]:
        """The batches from step `first` to the last one, of those each `every`-th, read on the host, one when the next
        is asked for. `finish`: False leaves the second stage of staged data to `finished`."""
        left = range(first, self.steps)
        for step, (turn, indices) in zip(left, self._dealt(first), strict=False):
            if (step - first) % every == 0:
                yield self._part(indices, turn, finish)

    def finished(self, batch: StepBatch) -> StepBatch:
        """A batch whose second stage was left."""

        def of(micro: MicroBatch) -> MicroBatch:
            return replace(micro, inputs=of_type(self._dtype, finished(self.source, micro.inputs)))

        return replace(batch, micro_batches=[of(micro) for micro in batch.micro_batches])

    def _dealt(self, first: int) -> Iterator[tuple[Turn, np.ndarray]]:
        """The global batches from step `first` on, without end."""
        training = self._training
        epoch, passed = divmod(first, self._per_epoch)
        while True:
            order = global_batches(len(self.source), training.global_batch, training.seed, epoch)
            turn = Turn(seed=training.seed, epoch=epoch)
            yield from ((turn, indices) for indices in islice(order, passed, None))
            epoch, passed = epoch + 1, 0

    def _part(self, indices: np.ndarray, turn: Turn, finish: bool) -> StepBatch:
        mine = shard(indices, self._rank, self._workers)
        parts: list[MicroBatch] = []
        counts: list[tuple[int, int]] = []  # samples, and targets that count
        for piece in micro_batches(mine, self._training.micro_batches):
            empty = len(piece) == 0
            filled = indices[:1] if empty and self._filler else piece
            if self._seeded:
                self._seed(turn, filled)
            inputs, targets = read(self.source, filled, turn, finish=finish)
            if not empty:
                counts.append((len(piece), self._checked(targets)))
            parts.append(
                MicroBatch(
                    inputs=of_type(self._dtype, inputs) if finish else inputs,
                    targets=targets,
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

    def _seed(self, turn: Turn, indices: np.ndarray) -> None:
        """Before these samples are read: for each where the source reads them one by one, else for the first."""
        if isinstance(self.source, ItemSource):
            self.source.before_item = partial(seed_by, turn)
        elif len(indices):
            seed_by(turn, int(indices[0]))

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
                type(self.source).__name__,
                f"has targets that do not count ({IGNORED}), so no worker knows how many the others have that do",
                "Give it a method target_count(indices): how many targets of these samples count",
            )
        return found
