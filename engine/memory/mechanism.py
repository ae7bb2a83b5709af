"""What a memory mechanism gets, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from engine.instrumentation.module_calls import Around
from engine.state.told import Told


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a mechanism treats as one: the calls of a module, or of neighbours that run in a row."""

    modules: tuple[nn.Module, ...]
    """One, or the neighbours in their order."""
    layers: tuple[str, ...]
    """The plan's layers in it, in forward order: at least one."""
    index: int
    """Forward position of the first of them, for telemetry."""

    @property
    def name(self) -> str:
        """For people."""
        first = self.layers[0] or "(root)"
        return first if len(self.layers) == 1 else f"{first} to {self.layers[-1]}"


@dataclass(kw_only=True)
class Passes:
    """What is going on in this part of the model."""

    forward: bool = False
    """The forward part of a training pass, outside of a block that cares for all that is saved in it."""
    backward: bool = False
    """Its backward part."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a mechanism works."""

    part: nn.Module
    """The part of the model that is computed here."""
    device: torch.device
    passes: Passes
    recording: Told
    repeats: bool
    """Whether the same computation on this device gives the same bits."""
    scratch: str
    """A folder of the attempt's own, on a disk."""


class Mechanism(Protocol):
    """One value of the axis, on one part of a model. Made of a Site."""

    single: bool
    """Whether it stands on modules without children only, so that no block is larger."""
    divides: bool
    """Whether a model is worth treating in several blocks although all of its layers ask for the same. Its options then
    say how many `neighbours` are one."""

    def around(self, block: Block, options: Any) -> Around:
        """What stands around the block's calls."""
        ...

    def begin_forward(self, inputs: Any) -> None:
        """A training pass on `inputs` begins, which are held until its backward part has ended."""
        ...

    def close(self) -> None:
        """Nothing is computed any more."""
        ...


Make = Callable[[Site], Mechanism]
