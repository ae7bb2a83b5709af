"""A layer of the plan on a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.nn import Parameter

from engine.plan.units import Unit
from engine.state.recording import Recording
from engine.state.updates import Hyper, Updater
from engine.telemetry.events import NONE


class Layer:
    """One layer of the plan on this worker."""

    def __init__(
        self, index: int, name: str, parameters: Mapping[str, Parameter], updater: Updater | None
    ) -> None:
        self.index = index
        self.name = name
        self.parameters = parameters
        self.updater = updater
        """This worker's, of all its layers; None where a server updates."""
        self.units: list[Unit] = []
        self.version = 0
        """Steps whose result the parameters hold."""


def update_here(layers: Sequence[Layer], hyper: Hyper, recording: Recording) -> None:
    """Update those of `layers` that this worker updates, in one step of its optimizer."""
    own = [layer for layer in layers if layer.updater is not None]
    if not own:
        return
    updater = own[0].updater
    assert updater is not None
    start = recording.mark()
    updater.update(hyper, [p for layer in own for p in layer.parameters.values()])
    recording.applied(own[0].index if len(own) == 1 else NONE, start)
