"""What a plan must hold in which workers do not wait for one another in every step. One rule, one function, one reason,
as in `rules.py`, which calls them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.errors import UserError, refusals, refuse
from engine.plan.consistency import drifts, trains_alone, unwaited
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Plan


def check_consistency(plan: Plan, job: JobSpec) -> None:
    """Raises UserError, for all that is wrong, where the mode does not have these settings, or cannot train the job."""
    workers = job.cluster.workers
    mode = CONSISTENCY[plan.consistency.mode].load()
    found = [*refusals(mode.check, plan.consistency, workers)]
    if drifts(plan.consistency):
        apart = () if trains_alone(plan.consistency) else (_nothing_needs_all_gradients, _answers_have_room)
        for rule in (_sums_have_no_order, *apart):
            found += refusals(rule, plan, job)
    refuse(found)


def policy_where_right(plan: Plan, job: JobSpec) -> Any:
    """The policy (`engine/consistency/policy.py`) that the plan asks for, or None where its settings are refused."""
    mode = CONSISTENCY[plan.consistency.mode].load()
    wrong = [*refusals(mode.check, plan.consistency, job.cluster.workers)]
    return None if wrong else mode.of(plan.consistency, job.cluster.workers)


def warn_of_an_empty_record(plan: Plan, job: JobSpec) -> Plan:
    """The plan, with a warning where updates are to be recorded of which each is known beforehand, or no server's."""
    apart = unwaited(plan.consistency)
    if not job.telemetry.updates or (drifts(plan.consistency) and not apart):
        return plan
    why = "no server updates" if apart else "every update has all workers' contributions of one step"
    idle = f"telemetry.updates has no effect: under {plan.consistency.mode} {why}."
    return replace(plan, warnings=(*plan.warnings, idle))


def check_layer_drifts(layer: LayerPlan, plan: Plan) -> None:
    """Raises UserError, for all that is wrong, where workers drift and this layer cannot be trained so."""
    rules = [_updates_travel_where_nobody_waits]
    if drifts(plan.consistency) and not trains_alone(plan.consistency):
        rules += [_somebody_holds_the_truth, _servers_update]
    refuse(error for rule in rules for error in refusals(rule, layer, plan))


def _updates_travel_where_nobody_waits(layer: LayerPlan, plan: Plan) -> None:
    """One of the two without the other has no meaning: nobody holds a sum, or nobody takes it."""
    if unwaited(plan.consistency) == ("unwaited" in EXCHANGE[layer.exchange].traits):
        return
    able = ", ".join(m.name for m in EXCHANGE if m.available and "unwaited" in m.traits)
    modes = ", ".join(m.name for m in CONSISTENCY if {"drifts", "alone"} <= m.traits)
    if unwaited(plan.consistency):
        raise UserError(
            f"layers.{layer.layer}.exchange",
            layer.exchange,
            f"under {plan.consistency.mode} each worker takes others' updates as they come, and it makes one of all",
            f"Use one of: {able}; or another consistency",
        )
    raise UserError(
        f"layers.{layer.layer}.exchange",
        layer.exchange,
        "workers send updates to one another by it, and add them when they come; under"
        f" {plan.consistency.mode} they wait for what all, or a server, make of gradients",
        f"Use another exchange, or consistency {modes}",
    )


def _somebody_holds_the_truth(layer: LayerPlan, plan: Plan) -> None:
    if "server" not in EXCHANGE[layer.exchange].traits:
        able = ", ".join(m.name for m in EXCHANGE if m.available and "server" in m.traits)
        raise UserError(
            f"layers.{layer.layer}.exchange",
            layer.exchange,
            f"under {plan.consistency.mode} workers contribute at different times, and it needs all of them at once",
            f"Use one of: {able}; or consistency every-step",
        )


def _servers_update(layer: LayerPlan, plan: Plan) -> None:
    if layer.update == "worker":
        raise UserError(
            f"layers.{layer.layer}.update",
            "worker",
            f"under {plan.consistency.mode} workers hold different parameters, so only the server knows what to update",
            "Use server",
        )


def _nothing_needs_all_gradients(plan: Plan, job: JobSpec) -> None:
    if job.training.clip_norm is not None:
        raise UserError(
            "training.clip_norm",
            job.training.clip_norm,
            f"nobody knows the norm of all gradients under {plan.consistency.mode}: layers are updated one by one, with"
            " some workers' contributions",
            "Leave it out, or use consistency every-step",
        )
    if not job.optimizer.elementwise:
        raise UserError(
            "optimizer.name",
            job.optimizer.name,
            f"it looks at whole parameters, and under {plan.consistency.mode} servers update parts of them",
            "Choose an element-wise optimizer such as sgd or adamw",
        )


def _sums_have_no_order(plan: Plan, job: JobSpec) -> None:
    if job.training.deterministic:
        raise UserError(
            "training.deterministic",
            True,
            f"under {plan.consistency.mode} what is added when depends on how fast workers and network are",
            "Leave it out, or use consistency every-step",
        )


def _answers_have_room(plan: Plan, job: JobSpec) -> None:
    policy = policy_where_right(plan, job)
    if policy is not None and not policy.in_place and job.cluster.device == "cuda":
        raise UserError(
            "consistency.own_writes",
            False,
            "on CUDA parameters are received into one pinned copy, where the next answer would overwrite the last one",
            "Leave it out, or train on the CPU",
        )
