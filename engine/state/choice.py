"""A choice: what the plan says about one unit, with its mechanisms loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.axes.codec import CODEC
from engine.codec.base import Codec
from engine.plan.flow import Flow
from engine.plan.plan import LayerPlan
from engine.plan.units import Unit


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the plan says about one unit, with its mechanisms loaded."""

    unit: Unit
    layer: LayerPlan
    """The plan of its first layer; every layer of a bucket agrees on exchange, codec and order."""
    flow: Flow
    """What follows from that for what travels, and for where it is applied."""
    codec: Codec
    rank: Callable[[Unit, int], int]
    """(unit, step) -> priority of its messages; smaller leaves first."""
    layer_index: int
    """Forward position of its first layer, for counters and events."""

    @property
    def lossless(self) -> bool:
        """Whether what travels is the tensor itself, so that it can be received in place."""
        return "lossless" in CODEC[self.layer.codec].traits

    def priority(self, step: int) -> int:
        """Of the unit's messages in `step`."""
        return self.rank(self.unit, step)
