"""What cannot be saved in a checkpoint yet, and why."""

from __future__ import annotations

from engine.axes.consistency import CONSISTENCY
from engine.errors import UserError
from engine.plan.consistency import drifts, trains_alone
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper

_WITHOUT = "Leave checkpoint.every_steps and checkpoint.every_seconds out"


def check_checkpoint(plan: Plan | Wrapper, job: JobSpec) -> None:
    """Of a resolved plan. Raises UserError where a party's state is not captured, or where there is no step after which
    all have the same."""
    asked = job.checkpoint.asked
    if asked is None:
        return
    if job.fidelity != "train":
        raise _refused(asked, "a rehearsal learns nothing, so there is nothing to go on from", _WITHOUT)
    if isinstance(plan, Wrapper):
        rule = f"what {plan.runner} keeps inside of PyTorch is not captured yet"
        raise _refused(asked, rule, f"Choose a strategy of ours, such as ring-allreduce, or: {_WITHOUT}")
    consistency = plan.consistency
    if drifts(consistency):
        rule = f"under {consistency.mode} workers are in different steps, and no cut through them is made yet"
        raise _refused(
            asked, rule, f"Choose a strategy in which workers wait for one another, or: {_WITHOUT}"
        )
    if any(layer.placement != "replicated" for layer in plan.layers):
        rule = "what other places than the workers hold of a model that is divided is not captured yet"
        raise _refused(asked, rule, f"Choose a strategy in which every worker has the model, or: {_WITHOUT}")
    if not trains_alone(consistency):
        return
    if "in-turn" in CONSISTENCY[consistency.mode].traits:
        rule = f"under {consistency.mode} an average is under way in every step"
        raise _refused(asked, rule, f"Choose local-sgd or model-average, or: {_WITHOUT}")
    period, every = consistency.exchange_period, job.checkpoint.every_steps
    if every is not None and every % period:
        rule = f"workers have the same parameters after an average only, every {period} steps"
        raise _refused(asked, rule, f"Give a multiple of {period}")


def _refused(asked: tuple[str, float], rule: str, remedy: str) -> UserError:
    field, value = asked
    return UserError(f"checkpoint.{field}", value, rule, remedy)
