"""Contributions: what a worker's units carry, and when. Gradients here; what training has changed: `averaging.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.inputs.loader import StepBatch
from engine.plan.units import Unit
from engine.replica.layer import Layer
from engine.state.choice import Choice
from engine.state.recording import Recording
from engine.state.updates import Hyper


@dataclass(frozen=True, kw_only=True)
class Holder:
    """What a replica is to its contributions."""

    layers: Sequence[Layer]
    choices: Mapping[int, Choice]
    recording: Recording
    hyper: Callable[[int], Hyper]
    depart: Callable[[Unit], None]
    """The unit has what it carries: it leaves when its order says so."""
    close: Callable[[Layer], None]
    """The layer's next version is outstanding from now on."""
    may_be_read: Callable[[Layer], bool]
    """Whether something in backward may still look at what the layer's parameters are."""
    clip: Callable[[], None] | None
    """Scale all gradients of this worker to the job's norm; None where it has none."""


class Contributions(Protocol):
    """The points of a step at which it matters what units carry; in the training thread, `needs` in any."""

    clipped: bool
    """Whether the gradients of the step have been scaled to the job's norm already."""
    outstanding: bool
    """Whether a parameter's next version is outstanding whatever its exchange."""

    def begin_step(self, step: int, batch: StepBatch) -> None: ...

    def begin_backward(self) -> None:
        """Of the step's last micro-batch."""
        ...

    def asks(self, step: int) -> bool:
        """Whether the forward pass of `step` has something to ask exchanges for."""
        ...

    def layer_is_final(self, layer: Layer) -> None:
        """Backward has computed the last gradient of the layer."""
        ...

    def unit_is_final(self, unit: Unit) -> None:
        """Backward has computed all gradients of the unit's parameters."""
        ...

    def backward_ended(self, left: Sequence[Unit]) -> None:
        """`left`: units of which not all parameters had a gradient."""
        ...

    def updated(self, layer: Layer) -> bool:
        """Whether the layer no longer holds what it held when backward began."""
        ...

    def needs(self, layer: Layer, version: int) -> int:
        """The version of the layer's units that its own `version` rests on; 0: none that is under way."""
        ...

    def take(self, layer: Layer, version: int) -> None:
        """What the layer's units have brought is in its place, and its gradients have been applied."""
        ...

    def common(self) -> AbstractContextManager[None]:
        """Around an evaluation: the parameters are what all workers agree on."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What later steps need of earlier ones, besides parameters and optimizers."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()`."""
        ...


class Gradients:
    """A unit carries this worker's part of the gradient, and brings the sum, or the next parameters."""

    clipped = False
    outstanding = False

    def __init__(self, holder: Holder) -> None:
        self._holder = holder

    def begin_step(self, step: int, batch: StepBatch) -> None:
        """Nothing to count."""

    def begin_backward(self) -> None:
        """Nothing to count."""

    def asks(self, step: int) -> bool:
        return True

    def layer_is_final(self, layer: Layer) -> None:
        """Units leave by themselves."""

    def unit_is_final(self, unit: Unit) -> None:
        self._holder.depart(unit)

    def backward_ended(self, left: Sequence[Unit]) -> None:
        for unit in left:
            self._holder.depart(unit)

    def updated(self, layer: Layer) -> bool:
        return False

    def needs(self, layer: Layer, version: int) -> int:
        return version

    def take(self, layer: Layer, version: int) -> None:
        """The update has taken it."""

    def common(self) -> AbstractContextManager[None]:
        return nullcontext()

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """There is nothing."""
