"""Ranks of a whole plan: where only some layers have priorities, the others' messages have to find their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.axes.exchange import EXCHANGE
from engine.axes.order import RANK
from engine.order.keys import fifo_beside_priorities
from engine.plan.plan import LayerPlan
from engine.plan.units import Unit


def ranks_of(units: Sequence[tuple[LayerPlan, Unit]]) -> dict[str, Callable[[Unit, int], int]]:
    """How the units' messages are ranked, by the value of the axis."""
    names = {layer.order.rank for layer, _ in units}
    ranks = {name: RANK[name].load() for name in names}
    if len(names) > 1:
        queued = (
            unit.position
            for layer, unit in units
            if layer.order.rank == "fifo" and "counted" in EXCHANGE[layer.exchange].traits
        )
        ranks["fifo"] = partial(fifo_beside_priorities, min(queued, default=0))
    return ranks
