"""stage: a contiguous run of layers on one worker, and the micro-batches that pass it (papers 001, model parallelism).

A stage takes activations from the one before it, or the batch's inputs, and hands its own on; the last one computes the
loss. Gradients of activations come back the same way. What travels is known to be on its way by its number: the n-th
forward pass of one stage is the n-th of the next. Which of its passes is next is the schedule's choice
(`schedule.py`); gradients are added up in the order of micro-batches either way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from engine.inputs.loader import MicroBatch
from engine.inputs.task import BatchLoss, Task
from engine.models.cut import ELSEWHERE, Rest
from engine.placement.neighbours import Neighbours
from engine.placement.schedule import actions
from engine.replica.base import Replica, finite
from engine.state.computation import Computation
from engine.state.recording import Recording

Flying = tuple[Tensor | None, Tensor | None]
"""What entered the stage and what left it, of a micro-batch that has not come back; None where it has no samples."""


class StagePasses:
    """One stage's passes: of training (`Passes`), and of an evaluation (`PassLoss`, by `evaluate`)."""

    def __init__(
        self,
        *,
        stage: int,
        stages: int,
        schedule: str,
        part: nn.Module,
        replica: Replica,
        task: Task,
        device: torch.device,
        computation: Computation,
        neighbours: Neighbours,
        recording: Recording,
    ) -> None:
        """`part`: the stage's layers; `replica`: how they are kept in step with the other replicas'."""
        self._stage = stage
        self._stages = stages
        self._schedule = schedule
        self._part = part
        self._rest = Rest(part)
        self._replica = replica
        self._task = task
        self._device = device
        self._computation = computation
        self._neighbours = neighbours
        self._recording = recording

    @property
    def _first(self) -> bool:
        return self._stage == 0

    @property
    def _last(self) -> bool:
        return self._stage == self._stages - 1

    def __call__(self, micro_batches: list[MicroBatch], divisor: float) -> tuple[float, int]:
        """See Passes. The last stage has the loss and counts the samples."""
        total, coming = 0.0, iter(micro_batches)
        flying: deque[Flying] = deque()
        left = len(micro_batches)
        for action in actions(self._schedule, self._stage, self._stages, len(micro_batches)):
            if action == "forward":
                micro = next(coming)
                entered, leaving = self._forward(micro, micro.scale / divisor)
                flying.append((entered, leaving))
                if self._last and leaving is not None:
                    total += finite(float(leaving.detach()), self._recording.step)
                    self._recording.caught_up()
            else:
                left -= 1
                self._backward(*flying.popleft(), last=left == 0)
        return total, sum(m.samples for m in micro_batches) if self._last else 0

    def evaluate(self, inputs: Tensor, targets: Tensor) -> BatchLoss | None:
        """See PassLoss: the last stage has the loss, the others None."""
        entered = self._entering(inputs, targets, training=False)
        result: BatchLoss | None = None
        leaving: Tensor | None = None
        if entered is not None:
            with self._computation.measuring():
                if self._last:
                    result = self._loss(entered, targets)
                else:
                    leaving = self._part(entered)
        if not self._last:
            self._neighbours.send_on(leaving, training=False)
        return result

    def _forward(self, micro: MicroBatch, scale: float) -> Flying:
        self._replica.begin_forward()
        entered = self._entering(micro.inputs, micro.targets, training=True)
        leaving: Tensor | None = None
        if entered is not None:
            with self._computation.training(entered):
                leaving = self._loss(entered, micro.targets).total if self._last else self._part(entered)
            if self._last:
                leaving = leaving * scale
        self._replica.end_forward()
        if not self._last:
            self._neighbours.send_on(leaving, training=True)
        return entered, leaving

    def _backward(self, entered: Tensor | None, leaving: Tensor | None, *, last: bool) -> None:
        self._replica.begin_backward(last)
        if leaving is not None:
            gradient = None if self._last else self._neighbours.gradient(leaving)
            with self._computation.backward():
                torch.autograd.backward(leaving, gradient)
            if not self._first:
                assert entered is not None
                back = entered.grad if entered.grad is not None else torch.zeros_like(entered)
                self._neighbours.send_back(back)
        self._replica.end_backward()

    def _entering(self, inputs: Tensor, targets: Tensor, *, training: bool) -> Tensor | None:
        """What this stage computes on; None for a micro-batch without samples."""
        if self._first:
            return inputs if len(targets) else None
        found = self._neighbours.activation(training=training)
        return None if found is None else found.to(self._device).requires_grad_(training)

    def _loss(self, entered: Tensor, targets: Tensor) -> BatchLoss:
        self._rest.activation = entered
        result: Any = self._task(self._rest, ELSEWHERE, targets)
        self._rest.activation = None
        return BatchLoss(*result)
