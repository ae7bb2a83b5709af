"""Derived flow: what follows from a layer's choices. The plan's table shows it, and the runtime goes by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.axes.exchange import EXCHANGE
from engine.plan.consistency import Consistency, trains_alone, unwaited
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan

Answer: TypeAlias = Literal[
    "parameters", "summed gradient", "factors", "averaged delta", "updates", "gradient", "none"
]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What one layer's units carry, where they are applied, and what that has to wait for."""

    payload: Literal["gradient", "factors", "delta", "activation", "none"]
    """What travels from the worker. `delta`: what local training has changed since the last exchange."""
    answer: Answer
    """What comes back. `updates`: what other workers have changed, whenever it comes."""
    update: Literal["worker", "server", "device"]
    """Where the optimizer runs."""
    barrier: Literal["none", "all units"]
    """`all units`: no update before every unit's sum is there (norm clipping)."""


CROSSING = Flow(payload="activation", answer="gradient", update="device", barrier="none")
"""What an edge carries."""


def derive(layer: LayerPlan, job: JobSpec, consistency: Consistency | None = None) -> Flow:
    """The flow of a resolved layer plan (see `rules.resolve`); `consistency`: every-step where left out."""
    assert layer.update != "auto", "resolve the plan first"
    if layer.placement == "device":
        return Flow(payload="none", answer="none", update="device", barrier="none")
    if (
        consistency is not None and trains_alone(consistency) and layer.exchanges
    ):  # each worker clips by itself
        brings: Answer = "updates" if unwaited(consistency) else "averaged delta"
        return Flow(payload="delta", answer=brings, update="worker", barrier="none")
    barrier: Literal["none", "all units"] = "none" if job.training.clip_norm is None else "all units"
    if not layer.exchanges:
        return Flow(payload="none", answer="none", update="worker", barrier=barrier)
    if "factored" in EXCHANGE[layer.exchange].traits:
        return Flow(payload="factors", answer="factors", update="worker", barrier=barrier)
    answer: Answer = "parameters" if layer.update == "server" else "summed gradient"
    return Flow(payload="gradient", answer=answer, update=layer.update, barrier=barrier)
