"""The catalogue: one strategy per file. To add one, write its file and add a line to STRATEGIES."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from engine import message_cost
from engine.errors import UnknownNameError, UserError, refuse
from engine.plan.cluster import cluster_of
from engine.plan.compose import compose
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.overrides import Override
from engine.plan.plan import MessageCost, Plan, Wrapper, replicas
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
    decentralized_async,
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
from engine.strategies.fit_budget import Choose, fit_budget

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
    decentralized_async.STRATEGY,
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


def build_plan(
    job: JobSpec,
    model: ModelDescription,
    message: MessageCost | None = None,
    *,
    choose: Choose | None = None,
) -> Plan | Wrapper:
    """Build, validate and settle the plan of a job, for the true model and rates of a rehearsal, too. `message`: what a
    message costs, where an option is left to that; None: as it is measured here. `choose`: who answers what a budget of
    memory asks. Raises UserError with value, rule and remedy."""
    entry, options = _chosen(job.strategy.name, job.strategy.options, "strategy.name", "strategy.options")
    cluster = cluster_of(job)
    known: dict[str, Plan | Wrapper] = {}
    asked: list[MessageCost] = []

    def build(chosen: Strategy, settings: Any) -> Plan | Wrapper:
        if not _asks_what_messages_cost(model, settings):
            return chosen.build(model, cluster, settings)
        if not asked:
            asked.append(message or message_cost.here())
        return chosen.build(model, replace(cluster, message=asked[0]), settings)

    def beside(override: Override, where: str) -> Plan | Wrapper:
        key = f"{override.strategy} {override.options}"
        if key not in known:
            other, settings = _chosen_beside(override, where)
            try:
                known[key] = build(other, settings)
            except UserError as error:
                rule = f"{error.rule} ({error.field} = {error.value!r})"
                raise UserError(f"{where}.strategy", override.strategy, rule, error.remedy) from None
        return known[key]

    plan = compose(build(entry, options), job, model, cluster, beside)
    if isinstance(plan, Plan) and plan.reasons and asked:  # without reasons no size is ours any more
        plan = replace(plan, message=asked[0], warnings=(*plan.warnings, *_unknown(asked[0])))
    try:
        plan = resolve(plan, model, cluster, job)
    except UserError as error:
        refuse(_as_written(one, options) for one in error.every)
    if job.fidelity == "rehearse":  # a profile that does not fit is found now, not when the job starts
        profile_of(job, model, replicas(plan, cluster.workers))
    return fit_budget(plan, job, model, choose)


def _asks_what_messages_cost(model: ModelDescription, options: Any) -> bool:
    """Whether an option is left to that."""
    left = any(each.name in SIZES and getattr(options, each.name) == AUTO for each in fields(options))
    return left and asks_what_messages_cost(model.layers)


def _unknown(message: MessageCost) -> tuple[str, ...]:
    """The warning of a plan whose sizes lack it: what it costs is time only, and the option may be a default, so that
    nobody need have written it."""
    if message.seconds is not None:
        return ()
    why = message.why.rstrip(".")
    return (
        f"What a message costs on this machine could not be measured ({why}): sizes that are left to us (auto) are the"
        " usual ones, and numbers in their place may be faster.",
    )


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
