"""Declared memory: the tensors that a plan has each party hold for as long as training lasts, before anything runs.

`engine/benchmarks/memory.py` shows them beside what real processes hold. Activations, what is on its way and scratch
memory are not declared.
"""

from __future__ import annotations

from engine.plan.cluster import Party
from engine.plan.description import DTYPE_BYTES, ModelDescription
from engine.plan.plan import Plan, Wrapper
from engine.plan.units import cut

PARTS = ("parameters", "gradients", "optimizer state", "server copies", "sums and other tensors")


def held(plan: Plan | Wrapper, model: ModelDescription, party: Party) -> dict[str, int]:
    """Bytes of each of PARTS in `party`'s process under a resolved plan: its part of the model, all of it where layers
    are replicated, and its server shard's units. One slot of optimizer state (momentum) for whatever is updated there;
    fsdp, which shards all of it, is declared as ddp, and what averages keep beside the parameters is not declared."""
    found = dict.fromkeys(PARTS, 0)
    chosen = {layer.layer: layer for layer in plan.layers} if isinstance(plan, Plan) else {}
    behind = [model.layers_from(edge.destination) for edge in plan.edges] if isinstance(plan, Plan) else []
    for layer in model.layers:
        if not _is_here(plan, party, sum(layer.name in back for back in behind)):
            continue
        trained = sum(p.nbytes for p in layer.parameters if p.trainable)
        found["parameters"] += layer.parameter_bytes
        found["gradients"] += trained
        if layer.name not in chosen or chosen[layer.name].update == "worker":
            found["optimizer state"] += trained
    if isinstance(plan, Plan) and party.shard is not None:
        for unit in cut(plan, model):
            if unit.shard == party.shard:
                size = unit.count * DTYPE_BYTES[unit.dtype]
                found["sums and other tensors"] += size
                if chosen[unit.layers[0]].update == "server":
                    found["server copies"] += size
                    found["optimizer state"] += size
    return found


def _is_here(plan: Plan | Wrapper, party: Party, part: int) -> bool:
    """Whether the party computes part `part` of the model, 0 where it is not cut."""
    if isinstance(plan, Plan) and plan.pipeline is not None:
        return party.rank is not None and party.rank % plan.pipeline.stages == part
    return party.device is not None if part else party.rank is not None
