"""Edges: the activations, and their gradients on the way back, that travel between layers placed differently.

Every worker sends the activation of each of its samples once and gets its gradient once, in a message for each
micro-batch; an edge is one unit, behind the units of the exchanges. Which party sends what to which one, in passes, is
said by who plays them (`engine/simulate/seats.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from engine.plan.description import CutDescription, ModelDescription
from engine.plan.plan import Edge, Plan
from engine.plan.units import Unit, cut


def edge_units(plan: Plan, model: ModelDescription) -> tuple[Unit, ...]:
    """One unit for each edge. Its position is 0: a device that has no activation computes nothing."""
    if not plan.edges:
        return ()
    units = cut(plan, model)
    return tuple(
        Unit(
            index=len(units) + k,
            layers=(edge.destination,),
            position=0,
            segments=(),
            dtype=_cut(model, edge.destination).dtype,
            shard=None,
        )
        for k, edge in enumerate(plan.edges)
    )


def edge_bytes(edge: Edge, place: CutDescription, passes: Iterable[int]) -> int:
    """Bytes that cross in one direction, in passes of so many samples."""
    return sum(edge.encoding.bytes(place.dtype, samples * math.prod(place.shape)) for samples in passes)


def _cut(model: ModelDescription, layer: str) -> CutDescription:
    found = model.cut(layer)
    assert found is not None, "resolve the plan first"
    return found
