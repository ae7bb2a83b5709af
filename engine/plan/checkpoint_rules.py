"""What cannot be saved in a checkpoint yet, and why."""

from __future__ import annotations

from engine.axes.consistency import CONSISTENCY
from engine.errors import UserError
from engine.plan.consistency import drifts, trains_alone, unwaited
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
        if plan.runner == "ddp" and (plan.hook is None or plan.hook.name != "powersgd"):
            return
        kept = "its hook powersgd" if plan.runner == "ddp" else plan.runner
        rule = f"what {kept} keeps inside of PyTorch is not captured yet"
        raise _refused(asked, rule, f"Choose a strategy of ours, such as ring-allreduce, or: {_WITHOUT}")
    consistency = plan.consistency
    if unwaited(consistency):
        rule = f"what workers have sent one another under {consistency.mode} is not captured yet"
        raise _refused(asked, rule, f"Choose a strategy with servers, such as async-sgd, or: {_WITHOUT}")
    if drifts(consistency):
        _check_drifting(plan, job, asked)
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


def _check_drifting(plan: Plan, job: JobSpec, asked: tuple[str, float]) -> None:
    """Of workers that have servers, and are in different steps."""
    if job.cluster.worker_loss != "end":
        rule = "a checkpoint needs a part of every worker, and cluster.worker_loss lets the job go on without some"
        raise _refused(asked, rule, f"Use cluster.worker_loss: end with retry.times, or: {_WITHOUT}")
    policy = CONSISTENCY[plan.consistency.mode].load().of(plan.consistency, job.cluster.workers)
    if job.training.target_accuracy is not None and policy.most_ahead is not None:
        rule = f"under {plan.consistency.mode} workers wait for one another, and training.target_accuracy may end one"
        rule += " while another waits for the checkpoint"
        raise _refused(asked, rule, f"Leave training.target_accuracy out, choose async-sgd, or: {_WITHOUT}")


def _refused(asked: tuple[str, float], rule: str, remedy: str) -> UserError:
    field, value = asked
    return UserError(f"checkpoint.{field}", value, rule, remedy)
