"""A layer of the plan on a worker."""

from __future__ import annotations

from collections.abc import Mapping

from torch.nn import Parameter

from engine.plan.units import Unit
from engine.runtime.updates import Updater


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
