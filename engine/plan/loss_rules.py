"""What a job must hold that goes on without a worker that is lost. One rule, one function, one reason, as in
`rules.py`, which calls them."""

from __future__ import annotations

from engine.axes.consistency import CONSISTENCY
from engine.errors import UserError, refusals, refuse
from engine.plan.consistency import drifts, unwaited
from engine.plan.drift_rules import policy_where_right
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper

_FIELD = "cluster.worker_loss"


def check_worker_loss(plan: Plan | Wrapper, job: JobSpec) -> None:
    """Raises UserError, for all that is wrong, where this job cannot go on without one of its workers."""
    if job.cluster.worker_loss == "end":
        return
    if isinstance(plan, Wrapper) or not drifts(plan.consistency):
        able = " or ".join(m.name for m in CONSISTENCY if "drifts" in m.traits)
        how = "every-step" if isinstance(plan, Wrapper) else plan.consistency.mode
        raise UserError(
            _FIELD,
            job.cluster.worker_loss,
            f"under {how} every worker waits for all others",
            f"Use end, or a strategy with consistency {able}",
        )
    refuse(
        error
        for rule in (
            _somebody_is_left,
            _enough_are_left,
            _nothing_else_is_lost,
            _somebody_has_what_was_missed,
        )
        for error in refusals(rule, plan, job)
    )


def _somebody_is_left(plan: Plan, job: JobSpec) -> None:
    if job.cluster.workers == 1:
        raise UserError(
            _FIELD,
            job.cluster.worker_loss,
            "nobody is left without the only worker",
            "Use end, or more workers",
        )


def _enough_are_left(plan: Plan, job: JobSpec) -> None:
    workers, policy = job.cluster.workers, policy_where_right(plan, job)
    if policy is not None and policy.least_workers == workers > 1:
        raise UserError(
            _FIELD,
            job.cluster.worker_loss,
            f"an update needs as many {policy.least_set_by} as there are workers, {workers}: too few are left without"
            " one",
            f"Use end, or fewer {policy.least_set_by}",
        )


def _nothing_else_is_lost(plan: Plan, job: JobSpec) -> None:
    if plan.servers.count and plan.servers.where != "dedicated":
        raise UserError(
            _FIELD,
            job.cluster.worker_loss,
            "server shards stand beside the workers, and a shard's parameters are lost with its worker",
            "Use end, or servers of their own (where: dedicated)",
        )
    if plan.devices or plan.pipeline is not None:
        raise UserError(
            _FIELD,
            job.cluster.worker_loss,
            "some layers are on devices or stages, which are lost with a worker",
            "Use end, or leave all layers replicated",
        )


def _somebody_has_what_was_missed(plan: Plan, job: JobSpec) -> None:
    if job.cluster.worker_loss == "rejoin" and unwaited(plan.consistency):
        raise UserError(
            _FIELD,
            "rejoin",
            f"servers give a worker that comes back its parameters, and under {plan.consistency.mode} there are none",
            "Use go-on, or a strategy with servers",
        )
