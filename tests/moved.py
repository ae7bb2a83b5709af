"""What each exchange moves by formula: the reference that the virtual driver's bytes are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from engine.plan.cluster import shard_party
from engine.plan.description import DTYPE_BYTES, LayerDescription, ModelDescription
from engine.plan.plan import LayerPlan, Plan
from engine.plan.rounds import Programmer, SendChunk, chunk, halving_doubling, tree
from engine.plan.traffic import factor_bytes, item_bytes
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
