"""What each exchange moves by formula: the reference that the virtual driver's bytes are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations

from engine.plan.cluster import device_party, shard_party
from engine.plan.description import DTYPE_BYTES, LayerDescription, ModelDescription
from engine.plan.edges import edge_bytes, edge_units
from engine.plan.plan import LayerPlan, Plan
from engine.plan.rounds import Programmer, SendChunk, chunk, halving_doubling, tree
from engine.plan.traffic import factor_bytes
from engine.plan.units import Unit, cut

_PLAYED_OUT: dict[str, Programmer] = {"tree-allreduce": tree, "recursive-halving-doubling": halving_doubling}


def by_formula(plan: Plan, model: ModelDescription, workers: int) -> Counter[tuple[int, int, int]]:
    """`{(source, destination, unit): bytes}` of one step of a plan whose layers are all on every worker."""
    choices = {layer.layer: layer for layer in plan.layers}
    described = {layer.name: layer for layer in model.layers}
    found: Counter[tuple[int, int, int]] = Counter()
    for unit in cut(plan, model):
        for source, destination, size in _messages(plan, choices[unit.layers[0]], described, unit, workers):
            found[source, destination, unit.index] += size
    return found


def crossing_by_formula(plan: Plan, model: ModelDescription, workers: int) -> Counter[tuple[int, int, int]]:
    """The same of what stages and devices send one another: every worker its samples' activations, which come back as
    gradients."""
    assert plan.workload is not None
    found: Counter[tuple[int, int, int]] = Counter()
    stages = plan.pipeline.stages if plan.pipeline is not None else 1
    for k, (edge, unit) in enumerate(zip(plan.edges, edge_units(plan, model), strict=True)):
        place = model.cut(edge.destination)
        assert place is not None
        for replica in range(workers // stages):
            passes = plan.workload.shares(replica, workers // stages)
            source = replica * stages + k
            home = source + 1 if plan.pipeline is not None else device_party(plan, workers, 0)
            found[source, home, unit.index] += edge_bytes(edge, place, passes)
            found[home, source, unit.index] += edge_bytes(edge, place, passes)
    return found


def _messages(
    plan: Plan, layer: LayerPlan, described: Mapping[str, LayerDescription], unit: Unit, workers: int
) -> Iterator[tuple[int, int, int]]:
    """(source, destination, bytes): the formula of each exchange."""
    size = partial(layer.encoding.bytes, unit.dtype)
    if unit.shard is not None:
        home = shard_party(plan, workers, unit.shard)
        back = unit.count * DTYPE_BYTES[unit.dtype] if layer.update == "server" else size(unit.count)
        for worker in range(workers):
            yield worker, home, size(unit.count)
            yield home, worker, back
    elif layer.exchange in ("ring-allreduce", "native"):
        if workers == 1:
            return
        for worker in range(workers):
            chunks = [
                size(stop - start) for start, stop in (chunk(unit.count, workers, k) for k in range(workers))
            ]
            kept = [chunks[(worker + k) % workers] for k in (1, 2)]
            yield worker, (worker + 1) % workers, 2 * sum(chunks) - sum(kept)
    elif layer.exchange == "peers":
        yield from ((worker, peer, size(unit.count)) for worker, peer in permutations(range(workers), 2))
    elif layer.exchange == "factors":
        yield from _factors(plan, layer, described[layer.layer], workers)
    elif layer.exchange in _PLAYED_OUT:
        yield from _played_out(_PLAYED_OUT[layer.exchange], size, unit, workers)


def _played_out(
    program: Programmer, size: Callable[[int], int], unit: Unit, workers: int
) -> Iterator[tuple[int, int, int]]:
    for worker in range(workers):
        for step in program(worker, workers, unit.count):
            if isinstance(step, SendChunk):
                yield worker, step.peer, size(step.stop - step.start)


def _factors(
    plan: Plan, layer: LayerPlan, described: LayerDescription, workers: int
) -> Iterator[tuple[int, int, int]]:
    """Everybody's factors to everybody else."""
    assert plan.workload is not None, "resolve the plan first"
    for worker in range(workers):
        size = factor_bytes(described, plan.workload, layer.encoding, plan.workload.share(worker, workers))
        for peer in range(workers):
            if peer != worker:
                yield worker, peer, size
