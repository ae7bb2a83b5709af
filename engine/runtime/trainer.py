"""The training loop: what every worker does, whatever the plan.

Gradients of a step are summed, never averaged: each micro-batch's loss is divided by the weight of the whole
global batch, so uneven shards and accumulation need no special case. (Workers that train alone between averages divide
by their own part's weight.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from torch import Tensor, nn

from engine.errors import TrainingError
from engine.inputs.batch import Tensors, count
from engine.inputs.loader import Loader, MicroBatch
from engine.inputs.task import BatchLoss, Task
from engine.plan.job import JobSpec
from engine.replica.base import Replica, finite
from engine.runtime.stop import Stop
from engine.state.computation import Computation
from engine.state.recording import Recording
from engine.telemetry import measured


class PassLoss(Protocol):
    """How the loss of one pass is computed."""

    def __call__(self, inputs: Tensors, targets: Tensors) -> BatchLoss | None:
        """The loss of a batch (n, ...). None for an empty batch."""
        ...


class Passes(Protocol):
    """How a step's micro-batches pass the model."""

    def __call__(self, micro_batches: list[MicroBatch], divisor: float) -> tuple[float, int]:
        """Forward and backward of every micro-batch; losses are divided by `divisor`. Answers this worker's part of the
        step's loss, and how many samples that part covers: 0 where another process computes the loss."""
        ...


class LocalLoss:
    """The whole model is here."""

    def __init__(self, compute: Callable[[Tensors, Tensors], BatchLoss], computation: Computation) -> None:
        """`compute`: (inputs, targets) -> loss, of a batch with samples."""
        self._compute = compute
        self._computation = computation

    def __call__(self, inputs: Tensors, targets: Tensors) -> BatchLoss | None:
        """See PassLoss."""
        if count(targets) == 0:  # a small batch left this worker without samples, and it needs no filler
            return None
        with self._computation.training(inputs):
            return self._compute(inputs, targets)


class MeasuredLoss:
    """The same in an evaluation, without gradients, unless the loss asks for some itself (by its inputs, say)."""

    def __init__(self, model: nn.Module, task: Task, computation: Computation) -> None:
        self._model = model
        self._task = task
        self._computation = computation
        self._needs_gradients = False

    def __call__(self, inputs: Tensors, targets: Tensors) -> BatchLoss | None:
        """See PassLoss."""
        if count(targets) == 0:
            return None
        if not self._needs_gradients:
            try:
                with self._computation.measuring():
                    return self._task(self._model, inputs, targets)
            except RuntimeError as error:
                if "not require grad" not in str(error):
                    raise
            self._needs_gradients = True
        with self._computation.measuring(gradients=True):
            found = self._task(self._model, inputs, targets)
        self._model.zero_grad(set_to_none=True)  # what the loss may have added up
        return BatchLoss(found.total.detach(), found.correct)


class OneByOne:
    """A micro-batch goes forward and at once backward."""

    def __init__(
        self, replica: Replica, loss: PassLoss, computation: Computation, recording: Recording
    ) -> None:
        self._replica = replica
        self._loss = loss
        self._computation = computation
        self._recording = recording

    def __call__(self, micro_batches: list[MicroBatch], divisor: float) -> tuple[float, int]:
        """See Passes."""
        replica, total = self._replica, 0.0
        for number, micro in enumerate(micro_batches):
            last = number == len(micro_batches) - 1
            with replica.accumulating() if not last else nullcontext():
                replica.begin_forward()
                loss = self._loss(micro.inputs, micro.targets)
                replica.end_forward()
                replica.begin_backward(last)
                if loss is not None:
                    scaled = differentiable(loss.total, self._recording.step) * (micro.scale / divisor)
                    total += finite(float(scaled.detach()), self._recording.step)
                    self._recording.caught_up()
                    with self._computation.backward():
                        scaled.backward()
                replica.end_backward()
        return total, sum(micro.samples for micro in micro_batches)


def differentiable(loss: Tensor, step: int) -> Tensor:
    """`loss`, if anything can be learned from it. Raises TrainingError where no parameter has a part in it."""
    if not loss.requires_grad:
        raise TrainingError(
            f"the loss of step {step} depends on no parameter that is trained then."
            " Let the model freeze something less, or keep the loss free of detach() and of torch.no_grad()"
        )
    return loss


@dataclass(frozen=True, kw_only=True)
class TrainingEnd:
    """How training ended on this worker."""

    steps: int
    samples: int
    """Of these steps over all workers, as if each had made them all."""
    test_accuracy: float | None
    """Measured last; None on who measures nothing."""
    test_loss: float | None
    target_step: int | None
    """After how many steps the target accuracy was reached: of all workers, where they drift of worker 0. The same on
    every worker; None on others than worker 0 where a worker may be lost, since nothing is agreed on then."""
    preempted: bool
    """It has ended with a checkpoint, and another attempt is to go on from there."""
    train_ns: int
    """From the first step's start to the last step's end, evaluations included."""
    cpu_ns: int
    """CPU time of the whole process in that time, its transport and server threads included."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """How far training has come, between two steps."""

    steps: int = 0
    samples: int = 0
    """Of these steps over all workers."""
    last: Measured | None = None
    """The last evaluation."""


class Cuts(Protocol):
    """Where what this worker has is saved between steps."""

    def due(self, steps: int) -> bool:
        """Whether it is, after so many steps."""
        ...

    def leaving(self, *, stopped: bool) -> bool:
        """Whether it is once more, behind the last step; blocks while others may want it. `stopped`: training has ended
        before, for all workers."""
        ...

    def take(self, done: Done) -> bool:
        """This worker holds what the last step has made. Answers whether training goes on."""
        ...


Evaluate: TypeAlias = Callable[[int], tuple[float | None, float]]
"""After so many steps: (test accuracy, None where the task counts nothing; mean test loss)."""


class Measured(NamedTuple):
    """What an evaluation has found."""

    steps: int
    """After how many of worker 0's."""
    accuracy: float | None
    loss: float
    common: bool
    """Whether all workers hold the model that was measured; else it is worker 0's own."""


@dataclass(frozen=True, kw_only=True)
class Meanwhile:
    """Where workers drift they do not meet for an evaluation: worker 0 measures its own model at its own step. Where
    that is good enough, it is what the job ends with: with what the others contribute meanwhile it is another one."""

    evaluate: Evaluate | None
    """On worker 0."""
    stop: Stop
    keep: Callable[[], None]
    """On worker 0: what the model is now will be saved."""
    agree: Callable[[Measured | None], Measured | None]
    """What worker 0 has found good enough, on all who take part. Collective."""
    versions: Callable[[], tuple[int, int]]
    """The least and the most updates that a unit of the model here has seen."""


class Trainer:
    """Runs the steps of one worker."""

    def __init__(
        self,
        *,
        job: JobSpec,
        replica: Replica,
        passes: Passes,
        loader: Loader,
        recording: Recording,
        evaluate: Evaluate | None,
        meanwhile: Meanwhile | None,
        begins: Callable[[int], None],
        after_step: Callable[[int], None],
        cuts: Cuts,
    ) -> None:
        """`evaluate` is collective; None where another worker evaluates for all. `meanwhile`: where workers drift, how
        the model is looked at before they have finished. `begins(step)` is told of each step whose batch has been read.
        `after_step(step)`: faults. `cuts`: of checkpoints."""
        self._job = job
        self._replica = replica
        self._passes = passes
        self._loader = loader
        self._recording = recording
        self._evaluate = evaluate
        self._meanwhile = meanwhile
        self._begins = begins
        self._after_step = after_step
        self._cuts = cuts

    def train(self, done: Done) -> TrainingEnd:
        """Go on from what is `done`, to the job's end, or until the target accuracy is reached."""
        replica, recording = self._replica, self._recording
        first = steps = done.steps
        samples, last = done.samples, done.last
        reached: Measured | None = None
        preempted = False
        start_ns, cpu_ns = recording.now_ns(), time.process_time_ns()
        batches = self._loader.batches(first)
        for step in range(first, self._loader.steps):
            recording.begin_step(step)
            with recording.input():
                batch = next(batches)
            replica.begin_step(step, batch)
            self._begins(step)
            total, here = self._passes(batch.micro_batches, batch.divisor)
            # A worker without samples has no loss, nor has a stage that is not the last one.
            mean = total * batch.divisor / batch.weight if here and batch.weight else math.nan
            recording.end_step(samples=here, loss=mean, end_ns=recording.now_ns())
            self._after_step(step)
            steps, samples = step + 1, samples + batch.global_samples
            if self._loader.evaluation_due(steps) and not self._measured_together(steps):
                evaluate = self._evaluate if self._meanwhile is None else self._meanwhile.evaluate
                if evaluate is not None:
                    last = self._measure(steps, evaluate, common=self._meanwhile is None)
                    if self._good_enough(last):
                        reached = last
                        if self._meanwhile is None:
                            break
                        self._meanwhile.keep()
                        self._meanwhile.stop.tell()
            if self._meanwhile is not None and self._meanwhile.stop.told:
                break
            if self._cuts.due(steps):
                replica.settle()
                preempted = not self._cuts.take(Done(steps=steps, samples=samples, last=last))
                if preempted:
                    break
        preempted = self._leave(Done(steps=steps, samples=samples, last=last), preempted)
        if self._meanwhile is not None:
            reached = self._meanwhile.agree(reached)
            last = reached or last
        known = reached is not None or (last is not None and last.common and last.steps == steps)
        if self._job.evaluation.at_end and not known and self._evaluate is not None and not preempted:
            last = self._measure(steps, self._evaluate, common=True)
            if self._good_enough(last):
                reached = last
        return TrainingEnd(
            steps=steps,
            samples=samples,
            test_accuracy=None if last is None else last.accuracy,
            test_loss=None if last is None else last.loss,
            target_step=None if reached is None else reached.steps,
            preempted=preempted,
            train_ns=recording.now_ns() - start_ns,
            cpu_ns=time.process_time_ns() - cpu_ns,
        )

    def _leave(self, done: Done, preempted: bool) -> bool:
        """Behind the last step. Answers whether the attempt ends with a checkpoint: what others have yet to contribute
        is then another attempt's."""
        if preempted:
            return True
        self._replica.ends(done.steps)
        stopped = self._meanwhile is not None and self._meanwhile.stop.told
        while self._cuts.leaving(stopped=stopped):
            if not self._cuts.take(done):
                return True
        self._replica.finish()
        return False

    def _measured_together(self, steps: int) -> bool:
        """Whether workers that drift are about to measure what all end with, at the same step."""
        at_end = steps == self._loader.steps and self._job.evaluation.at_end
        return at_end and self._meanwhile is not None

    def _measure(self, steps: int, evaluate: Evaluate, *, common: bool) -> Measured:
        """`common`: see `Measured`."""
        self._replica.settle()
        with self._replica.common():
            accuracy, loss = evaluate(steps)
        found = {"test_loss": loss} if accuracy is None else {"test_accuracy": accuracy, "test_loss": loss}
        if self._meanwhile is not None:
            found |= measured.metrics_of(common=common, versions=self._meanwhile.versions())
        for name, value in found.items():
            self._recording.recorder.metric(name, steps, value)
        return Measured(steps, accuracy, loss, common)

    def _good_enough(self, found: Measured) -> bool:
        target = self._job.training.target_accuracy
        return target is not None and found.accuracy is not None and found.accuracy >= target
