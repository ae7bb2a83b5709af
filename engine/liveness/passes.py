"""Passes: a step's forward and backward passes on tensors without values, of a whole model or of a pipeline's stage.

A stage goes forward and backward in its schedule's order (`engine/placement/schedule.py`), so that as many
micro-batches are in flight as in `engine/placement/stage.py`. What comes from its neighbours is new memory; what it
sends is its own until it has no use for it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.errors import UserError
from engine.inputs.batch import count
from engine.liveness.ledger import Holder, Ledger
from engine.liveness.training import Training
from engine.models.cut import ELSEWHERE, Rest
from engine.placement.schedule import Action, actions
from engine.state.computation import Computation
from engine.state.told import Again, Untold

MICRO_BATCHES = 3
"""So many of a step are run at the most: the later ones hold what the second one does, and a job may have a million."""
MOST_IN_FLIGHT = 256
"""Micro-batches of a `gpipe` step that are run: all of them are in flight."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline."""

    part: nn.Module
    """Its layers."""
    number: int
    stages: int
    schedule: str
    entering: Tensor | None
    """What a micro-batch brings from the stage before; None of the first one."""

    @property
    def last(self) -> bool:
        """Whether it computes the loss."""
        return self.number == self.stages - 1


def actions_of(stage: Stage | None, micro_batches: int) -> Sequence[Action]:
    """What is done in a step, as far as it changes what is held. Raises UserError for too many in flight."""
    if stage is None:
        alone: tuple[Action, Action] = "forward", "backward"
        return alone * min(micro_batches, MICRO_BATCHES)
    if stage.schedule != "1f1b" and micro_batches > MOST_IN_FLIGHT:
        raise UserError(
            "training.micro_batches",
            micro_batches,
            f"all of them are in flight at a time, and the peak of more than {MOST_IN_FLIGHT} is not predicted",
            "Choose the schedule 1f1b, or fewer",
        )
    turns = stage.stages - stage.number + MICRO_BATCHES - 1 if stage.schedule == "1f1b" else MOST_IN_FLIGHT
    return actions(stage.schedule, stage.number, stage.stages, min(micro_batches, turns))


class Step(Untold):
    """Where a step is, for the ledger and for a mechanism that tells of it."""

    def __init__(self, ledger: Ledger, layers: tuple[str, ...]) -> None:
        super().__init__()
        self.ledger = ledger
        self.layers = layers
        self.part = ""
        self.saved: Counter[str] = Counter()

    def enter(self, part: str) -> None:
        self.part, self.ledger.holder = part, Holder(part)

    def entering(self, layer: str) -> None:
        """A module that owns the layer's parameters is called."""
        self.ledger.holder = Holder(self.part, layer)

    @contextmanager
    def recomputing(self, layer: int) -> Iterator[Again]:
        before, holder = self.part, self.ledger.holder
        self.part, self.ledger.holder = "again", Holder("again", self.layers[layer])
        try:
            yield Again()
        finally:
            self.part, self.ledger.holder = before, holder


class Passing:
    """Does one pass after another, with what `engine/runtime/trainer.py` or a stage holds of each."""

    def __init__(self, training: Training, stage: Stage | None, computation: Computation, step: Step) -> None:
        self._training = training
        self._stage = stage
        self._computation = computation
        self._step = step
        self._rest = Rest(stage.part) if stage is not None else None
        self._flying: deque[tuple[Tensor | None, Tensor]] = deque()
        """What entered, and what left, of passes that have not gone backward."""
        self._latest: tuple[Tensor | None, Tensor] | None = None
        """A stage's variables have it until there is another."""

    def do(self, action: Action) -> None:
        """The next pass in this direction."""
        self._forward() if action == "forward" else self._backward(*self._flying.popleft())

    def _forward(self) -> None:
        self._step.enter("forward")
        entered = self._entering()
        with self._computation.training(self._training.inputs if entered is None else entered):
            leaving = self._leaving(entered)
        if self._stage is None or self._stage.last:
            leaving = leaving * (1.0 / count(self._training.targets))
        self._flying.append((entered, leaving))
        self._latest = None if self._stage is None else self._flying[-1]
        held = self._step.ledger.live()
        saved = Counter({h.layer or "": size for h, size in held.items() if h.part == "forward"})
        self._step.saved = max(self._step.saved, saved, key=Counter.total)

    def _backward(self, entered: Tensor | None, leaving: Tensor) -> None:
        self._step.enter("backward")
        gradient = None if self._stage is None or self._stage.last else torch.empty_like(leaving)
        with self._computation.backward():
            torch.autograd.backward(leaving, gradient)

    def _entering(self) -> Tensor | None:
        if self._stage is None or self._stage.entering is None:
            return None
        return torch.empty_like(self._stage.entering).requires_grad_()

    def _leaving(self, entered: Tensor | None) -> Tensor:
        training = self._training
        if self._stage is None:
            return training.loss().total
        inputs = training.inputs if entered is None else entered
        if not self._stage.last:
            found: Tensor = self._stage.part(inputs)
            return found
        assert self._rest is not None
        self._rest.activation = inputs
        loss = training.task(self._rest, ELSEWHERE, training.targets).total
        self._rest.activation = None
        return loss
