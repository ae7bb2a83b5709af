"""What took a party's memory, by its plan, and what to do where there is not enough of it. No torch here."""

from __future__ import annotations

from engine.axes.memory import ACTIVATIONS
from engine.plan.cluster import Party
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.memory import held
from engine.plan.plan import Plan, Wrapper
from engine.plan.units_of_measure import format_bytes

_MOST_NAMED = 3
"""Layers, the largest first."""


def holders(job: JobSpec, plan: Plan | Wrapper, model: ModelDescription, party: Party) -> str:
    """What the plan declares, the largest first, in a sentence without its full stop."""
    found = held(plan, model, party, job)
    parts = sorted(((size, part) for part, size in found.items() if size), reverse=True)
    if not parts:
        return f"The plan has {party.name} hold nothing for as long as training lasts"
    named = ", ".join(f"{part} {format_bytes(size)}" for size, part in parts)
    layers = sorted(model.layers, key=lambda layer: -layer.parameter_bytes)[:_MOST_NAMED]
    largest = ", ".join(f"{layer.name or '(root)'} {format_bytes(layer.parameter_bytes)}" for layer in layers)
    s, are = ("", "is") if len(layers) == 1 else ("s", "are")
    return (
        f"For as long as training lasts, the plan has {party.name} hold {named}; the layer{s} with the largest"
        f" parameters {are} {largest}"
    )


def remedy(job: JobSpec, plan: Plan | Wrapper, party: Party) -> str:
    """What leaves more room."""
    ways = []
    kept = isinstance(plan, Plan) and any(
        "as-is" in ACTIVATIONS[layer.activations].traits for layer in plan.layers
    )
    if party.rank is not None and kept:
        ways.append(
            "let layers recompute what they save for backward, or swap it out (memory.budget chooses which, as does"
            " activations: recompute, or swap, in overrides)"
        )
    if party.rank is not None:
        ways.append(
            f"pass fewer samples at once (training.micro_batches, now {job.training.micro_batches}, or"
            f" training.global_batch, now {job.training.global_batch})"
        )
    if job.optimizer.options.get("momentum") or job.optimizer.name != "sgd":
        keep = (
            "" if job.optimizer.offload else "keep the optimizer's state elsewhere (optimizer.offload), or "
        )
        ways.append(f"{keep}choose an optimizer with less state")
    ways.append("give it a machine or a device with more memory")
    text = ", or ".join(ways) if len(ways) < 3 else ", ".join(ways[:-1]) + f", or {ways[-1]}"
    return f"{text[0].upper()}{text[1:]}"
