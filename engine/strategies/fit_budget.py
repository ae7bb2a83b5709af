"""A budget's question, and a plan that has its answer: the activations of the layers that are left to it.

What a worker holds beside its model's step (server copies, residuals, sums: `engine/plan/memory.py`) is taken off the
budget. Layers whose activations an override names stay as that says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.plan.budget import Fitted
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Plan, Wrapper
from engine.plan.worker_memory import declared_memory, request_for
from engine.profile import measured

Choose: TypeAlias = Callable[[JobSpec, dict[str, Any]], Fitted]
"""(job, what `python -m engine.liveness` is asked) -> its answer."""


def fit_budget(
    plan: Plan | Wrapper, job: JobSpec, model: ModelDescription, choose: Choose | None
) -> Plan | Wrapper:
    """The plan with what was chosen for the job's budget; as it is where there is none. Raises UserError where nothing
    can be chosen, and where no choice fits, with the least possible peak."""
    budget = job.memory.budget_bytes
    if budget is None:
        return plan
    if choose is None:
        raise _nothing_chosen(
            job, "who builds this plan asks nobody what steps hold", "Let the service plan it"
        )
    try:
        request = request_for(job, plan, model)
    except UserError as error:
        raise _nothing_chosen(job, f"{error.rule} ({error.field} = {error.value!r})", error.remedy) from None
    if isinstance(plan, Wrapper):
        rule = "PyTorch's own runner has no choice for one layer's activations"
        raise _nothing_chosen(job, rule, "Use a strategy of ours, such as ring-allreduce-overlap")
    if plan.pipeline is not None:
        rule = "each stage of a pipeline would have its own"
        raise _nothing_chosen(
            job, rule, "Say by overrides what happens to activations, or replicate all layers"
        )
    request["budget"] = budget
    free = [layer.layer for layer in plan.layers if _is_left(layer, job)]
    request["wanted"] = wanted_of(job, plan, model, free)
    fitted = choose(job, request)
    chosen = {choice.layer: choice for choice in fitted.layers}
    layers = tuple(
        replace(
            layer,
            activations=chosen[layer.layer].activations,
            activation_options=chosen[layer.layer].options,
        )
        if layer.layer in chosen
        else layer
        for layer in plan.layers
    )
    return replace(plan, layers=layers, memory=fitted, reasons=(*plan.reasons, fitted.why))


def wanted_of(job: JobSpec, plan: Plan, model: ModelDescription, free: Iterable[str]) -> dict[str, Any]:
    """What `engine/liveness/fitting.py: Wanted` says of the job, for the layers that are `free`."""
    _, beside = declared_memory(job, plan, model)
    return {
        "beside": beside,
        "free": list(free),
        "threads": job.cluster.threads,
        "accumulated": job.training.micro_batches > 1,
        **_times(job, model),
    }


def _is_left(layer: LayerPlan, job: JobSpec) -> bool:
    given = [job.overrides[number] for number in layer.overrides]
    said = any(each.activations is not None or each.activation_options is not None for each in given)
    return not said and "as-is" in ACTIVATIONS[layer.activations].traits


def _times(job: JobSpec, model: ModelDescription) -> dict[str, Any]:
    """What was measured of the layers, where the job names a profile."""
    if job.memory.profile is None:
        return {}
    found = measured(job.memory.profile, "memory.profile", model, job.pass_samples(job.cluster.workers))
    return {
        "times": {time.layer: [time.forward_s, time.backward_s] for time in found.layers},
        "rates": f"as the profile {job.memory.profile} has it",
    }


def _nothing_chosen(job: JobSpec, rule: str, remedy: str) -> UserError:
    return UserError("memory.budget", job.memory.budget, f"nothing can be chosen for it: {rule}", remedy)
