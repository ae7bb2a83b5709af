"""The catalogue: one strategy per file. To add one, write its file and add a line to STRATEGIES."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from engine import message_cost
from engine.errors import UnknownNameError, UserError, refuse
from engine.plan.cluster import Cluster, cluster_of
from engine.plan.compose import compose
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.overrides import Override
from engine.plan.plan import Plan, Wrapper, replicas
from engine.plan.rules import resolve
from engine.plan.serde import from_plain
from engine.plan.sizing import AUTO, SIZES, asks_what_messages_cost
from engine.plan.updates import check_updates
from engine.profile import profile_of
from engine.strategies import (
    async_sgd,
    bounded_staleness,
    central_reduce,
    ddp,
    diloco,
    fsdp,
    hybrid,
    late_multiply,
    model_average,
    model_parallel,
    native_allreduce,
    p3,
    p3_late_multiply,
    parameter_averaging,
    parameter_server,
    parameter_server_deferred,
    parameter_slicing,
    ring_allreduce,
    ring_allreduce_overlap,
    single,
    softsync,
    staleness_aware,
    streaming_diloco,
    tree_allreduce,
)
from engine.strategies.base import Strategy

STRATEGIES: tuple[Strategy, ...] = (
    single.STRATEGY,
    central_reduce.STRATEGY,
    parameter_server.STRATEGY,
    parameter_server_deferred.STRATEGY,
    parameter_slicing.STRATEGY,
    p3.STRATEGY,
    ring_allreduce.STRATEGY,
    ring_allreduce_overlap.STRATEGY,
    tree_allreduce.STRATEGY,
    late_multiply.STRATEGY,
    p3_late_multiply.STRATEGY,
    hybrid.STRATEGY,
    model_parallel.STRATEGY,
    native_allreduce.STRATEGY,
    parameter_averaging.STRATEGY,
    model_average.STRATEGY,
    diloco.STRATEGY,
    streaming_diloco.STRATEGY,
    async_sgd.STRATEGY,
    staleness_aware.STRATEGY,
    softsync.STRATEGY,
    bounded_staleness.STRATEGY,
    ddp.STRATEGY,
    fsdp.STRATEGY,
)


def strategy(name: str) -> Strategy:
    """The strategy called `name`; raises UnknownNameError listing the known ones."""
    for entry in STRATEGIES:
        if entry.name == name:
            return entry
    raise UnknownNameError("strategy.name", name, "strategy", [entry.name for entry in STRATEGIES])


def check_options(job: JobSpec) -> None:
    """Refuse strategies that nobody knows, and options that they, the optimizer or the schedule do not have: the job's
    and its overrides'. Needs no description."""
    check_updates(job.optimizer, job.schedule)
    _chosen(job.strategy.name, job.strategy.options, "strategy.name", "strategy.options")
    for number, override in enumerate(job.overrides):
        if override.strategy is not None:
            _chosen_beside(override, f"overrides.{number}")


def build_plan(job: JobSpec, model: ModelDescription) -> Plan | Wrapper:
    """Build, validate and settle the plan of a job, for the true model and rates of a rehearsal, too. Raises UserError
    with value, rule and remedy."""
    entry, options = _chosen(job.strategy.name, job.strategy.options, "strategy.name", "strategy.options")
    cluster = cluster_of(job)
    known: dict[str, Plan | Wrapper] = {}

    def beside(override: Override, where: str) -> Plan | Wrapper:
        key = f"{override.strategy} {override.options}"
        if key not in known:
            other, settings = _chosen_beside(override, where)
            try:
                built = other.build(model, _measured(cluster, model, settings, "options"), settings)
            except UserError as error:
                rule = f"{error.rule} ({error.field} = {error.value!r})"
                raise UserError(f"{where}.strategy", override.strategy, rule, error.remedy) from None
            if isinstance(built, Plan):
                built = replace(
                    built, reasons=tuple(f"Overrides with {other.name}: {why}" for why in built.reasons)
                )
            known[key] = built
        return known[key]

    measured = _measured(cluster, model, options, "strategy.options")
    plan = compose(entry.build(model, measured, options), job, model, cluster, beside)
    try:
        plan = resolve(plan, model, cluster, job)
    except UserError as error:
        refuse(_as_written(one, options) for one in error.every)
    if job.fidelity == "rehearse":  # a profile that does not fit is found now, not when the job starts
        profile_of(job, model, replicas(plan, cluster.workers))
    return plan


def _measured(cluster: Cluster, model: ModelDescription, options: Any, field: str) -> Cluster:
    """With what a message costs here, where an option in `field` is left to that: to measure it takes a moment."""
    left = [
        each.name for each in fields(options) if each.name in SIZES and getattr(options, each.name) == AUTO
    ]
    if not left or not asks_what_messages_cost(model.layers):
        return cluster
    try:
        return replace(cluster, message_s=message_cost.here())
    except RuntimeError as error:
        rule = f"what a message costs on this machine could not be measured: {error}"
        raise UserError(f"{field}.{left[0]}", AUTO, rule, "Give a number") from None


def _as_written(error: UserError, options: Any) -> UserError:
    """About the option that the person wrote, where a rule refuses the setting of the plan that it became."""
    part, _, setting = error.field.partition(".")
    option = {"consistency": setting, "servers": "servers" if setting == "count" else ""}.get(part)
    written = option in {each.name for each in fields(options)}
    return error.at(f"strategy.options.{option}") if written else error


def _chosen(name: str, options: dict[str, Any], name_field: str, options_field: str) -> tuple[Strategy, Any]:
    try:
        entry = strategy(name)
    except UnknownNameError as error:
        raise error.at(name_field) from None
    return entry, from_plain(entry.options, options, options_field)


def _chosen_beside(override: Override, where: str) -> tuple[Strategy, Any]:
    assert override.strategy is not None
    return _chosen(override.strategy, override.options, f"{where}.strategy", f"{where}.options")
