"""Declared bytes: what a plan must move in one step, message by message, before anything runs.

Where workers average every k steps, that is a step which ends with an average; in the others nothing moves.

A test compares these with the bytes that the transport counts; the launch page shows them per layer.
Payload only: headers, notifications, pull requests and heartbeats are counted apart as overhead. Factors have a row per
sample: they are declared for a whole global batch, and where samples differ in length, for the example that the model
was described with, which is of the longest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from engine.plan.cluster import parties, shard_party, team_of
from engine.plan.description import DTYPE_BYTES, LayerDescription, ModelDescription
from engine.plan.edges import crossings
from engine.plan.plan import LayerPlan, Plan, Workload, Wrapper
from engine.plan.rounds import Programmer, SendChunk, chunk, halving_doubling, tree
from engine.plan.units import Unit, carried, cut

_PLAYED_OUT: dict[str, Programmer] = {"tree-allreduce": tree, "recursive-halving-doubling": halving_doubling}
"""Exchanges whose messages are counted one by one; the ring's, of which there are n times more, by formula."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """One message (or the sum of a unit's messages) from one party to another in one step."""

    source: int
    """Sending party."""
    destination: int
    """Receiving party."""
    unit: int
    """The unit's index."""
    layer: str
    """The unit's first layer in forward order."""
    bytes: int
    """Payload."""
    wire: bool
    """False between parties of one host: such bytes never cross the network."""


def item_bytes(codec: str, dtype: str) -> int:
    """Bytes of one element on the wire."""
    return 2 if codec == "fp16" else DTYPE_BYTES[dtype]


def factor_type(layer: LayerDescription, workload: Workload) -> str:
    """The type in which a layer computes, and its factors travel."""
    dtype = layer.parameters[0].dtype
    return "bfloat16" if workload.autocast and dtype == "float32" else dtype


def factor_bytes(layer: LayerDescription, workload: Workload, codec: str, samples: int) -> int:
    """Bytes of a fully-connected layer's factors of `samples` samples: what a worker with so many sends to each
    other."""
    assert layer.factors is not None, f"{layer.name} has no factors"
    columns = layer.factors.inputs + layer.factors.outputs
    return samples * layer.factors.rows * columns * item_bytes(codec, factor_type(layer, workload))


def factors_against_gradient(layer: LayerDescription, workload: Workload, codec: str) -> float:
    """What a fully-connected layer moves by factors as a multiple of what its gradient moves: less than 1 where
    late-multiply pays. n workers send (n-1) rows (N+K) over all links; as a gradient, by any allreduce in rounds or
    servers beside workers, it is 2 (n-1) |W|, and so the number of workers does not matter."""
    gradient = sum(p.count * item_bytes(codec, p.dtype) for p in layer.parameters if p.trainable)
    return factor_bytes(layer, workload, codec, workload.samples) / (2 * gradient)


def declared(
    plan: Plan | Wrapper, model: ModelDescription, workers: int, hosts: int | None = None
) -> Iterator[Transfer]:
    """Every transfer of one step of a resolved plan. A peer declares nothing: it decides by itself."""
    if isinstance(plan, Wrapper):
        return
    at = [party.host for party in parties(plan, workers, hosts)]
    for unit, source, destination, size in chain(
        _exchanged(plan, model, workers), crossings(plan, model, workers)
    ):
        yield Transfer(
            source=source,
            destination=destination,
            unit=unit.index,
            layer=unit.layers[0],
            bytes=size,
            wire=at[source] != at[destination],
        )


def spread_over_period(plan: Plan | Wrapper, step_bytes: int) -> int:
    """`step_bytes` of a step that exchanges, shared out over all steps."""
    return round(step_bytes / _period(plan))


def _period(plan: Plan | Wrapper) -> int:
    return (plan.consistency.period if isinstance(plan, Plan) else None) or 1


def _exchanged(plan: Plan, model: ModelDescription, workers: int) -> Iterator[tuple[Unit, int, int, int]]:
    """(unit, source, destination, bytes) of what every layer's exchange moves; parties by their index."""
    choices = {layer.layer: layer for layer in plan.layers}
    described = {layer.name: layer for layer in model.layers}
    for unit in cut(plan, model):
        layer = choices[unit.layers[0]]
        team = team_of(plan, layer, workers)
        for one, other, size in _messages(plan, layer, described, unit, len(team)):
            source, destination = (team[one], team[other]) if layer.placement == "stage" else (one, other)
            yield unit, source, destination, size


def _messages(
    plan: Plan, layer: LayerPlan, described: Mapping[str, LayerDescription], unit: Unit, workers: int
) -> Iterator[tuple[int, int, int]]:
    """(source, destination, bytes): the formula of each exchange."""
    item = item_bytes(layer.codec, unit.dtype)
    if unit.shard is not None:
        home = shard_party(plan, workers, unit.shard)
        back = DTYPE_BYTES[unit.dtype] if layer.update == "server" else item
        for worker in range(workers):
            yield worker, home, unit.count * item
            yield home, worker, unit.count * back
    elif layer.exchange in ("ring-allreduce", "native"):
        if workers == 1:
            return
        for worker in range(workers):
            kept = [chunk(unit.count, workers, (worker + k) % workers) for k in (1, 2)]
            sent = 2 * unit.count - sum(stop - start for start, stop in kept)
            yield worker, (worker + 1) % workers, sent * item
    elif layer.exchange == "factors":
        yield from _factors(plan, layer, described[layer.layer], workers)
    elif layer.exchange in _PLAYED_OUT:
        for worker in range(workers):
            for step in _PLAYED_OUT[layer.exchange](worker, workers, unit.count):
                if isinstance(step, SendChunk):
                    yield worker, step.peer, (step.stop - step.start) * item


def _factors(
    plan: Plan, layer: LayerPlan, described: LayerDescription, workers: int
) -> Iterator[tuple[int, int, int]]:
    """Everybody's factors to everybody else."""
    assert plan.workload is not None, "resolve the plan first"
    for worker in range(workers):
        size = factor_bytes(described, plan.workload, layer.codec, plan.workload.share(worker, workers))
        for peer in range(workers):
            if peer != worker:
                yield worker, peer, size


def wire_bytes(plan: Plan | Wrapper, model: ModelDescription, workers: int, hosts: int | None = None) -> int:
    """Payload bytes that cross the network in one step, over all links."""
    return sum(t.bytes for t in declared(plan, model, workers, hosts) if t.wire)


def wire_bytes_by_layer(
    plan: Plan | Wrapper, model: ModelDescription, workers: int, hosts: int | None = None
) -> dict[str, int]:
    """The same for each layer; a bucket's bytes are shared out by its layers' elements, an edge's belong to the layer
    that it leads to."""
    if isinstance(plan, Wrapper):
        return {}
    state = plan.consistency.state
    owner = {p.name: layer.name for layer in model.layers for p in carried(layer, state)}
    by_unit: dict[int, int] = defaultdict(int)
    totals: dict[str, int] = {layer.layer: 0 for layer in plan.layers}
    units = cut(plan, model)
    for transfer in declared(plan, model, workers, hosts):
        if transfer.wire and transfer.unit < len(units):
            by_unit[transfer.unit] += transfer.bytes
        elif transfer.wire:
            totals[transfer.layer] += transfer.bytes
    for unit in units:
        size, before = by_unit[unit.index], 0
        for segment in unit.segments:  # shared out so that not a byte is lost to rounding
            after = before + segment.count
            totals[owner[segment.parameter]] += size * after // unit.count - size * before // unit.count
            before = after
    return totals
