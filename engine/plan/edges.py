"""Edges: the activations, and their gradients on the way back, that travel between layers placed differently.

Every worker sends the activation of each of its samples once and gets its gradient once, in a message for each
micro-batch; an edge is one unit, behind the units of the exchanges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from engine.plan.cluster import device_party
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


def crossings(plan: Plan, model: ModelDescription, workers: int) -> Iterator[tuple[Unit, int, int, int]]:
    """(unit, source party, destination party, bytes) of every edge in one step."""
    if not plan.edges:
        return
    assert plan.workload is not None, "resolve the plan first"
    if plan.pipeline is not None:
        stages = plan.pipeline.stages
        for k, unit in enumerate(edge_units(plan, model)):
            for replica in range(workers // stages):
                passes = plan.workload.shares(replica, workers // stages)
                size = edge_bytes(plan.edges[k], _cut(model, unit.layers[0]), passes)
                before = replica * stages + k
                if size:
                    yield unit, before, before + 1, size
                    yield unit, before + 1, before, size
        return
    places = {layer.layer: layer.place for layer in plan.layers if layer.placement == "device"}
    for edge, unit in zip(plan.edges, edge_units(plan, model), strict=True):
        where = places[unit.layers[0]]
        assert where is not None
        home = device_party(plan, workers, where)
        for worker in range(workers):
            size = edge_bytes(edge, _cut(model, unit.layers[0]), plan.workload.shares(worker, workers))
            if size:
                yield unit, worker, home, size
                yield unit, home, worker, size


def edge_bytes(edge: Edge, place: CutDescription, passes: Iterable[int]) -> int:
    """Bytes that cross in one direction, in passes of so many samples."""
    return sum(edge.encoding.bytes(place.dtype, samples * math.prod(place.shape)) for samples in passes)


def _cut(model: ModelDescription, layer: str) -> CutDescription:
    found = model.cut(layer)
    assert found is not None, "resolve the plan first"
    return found
