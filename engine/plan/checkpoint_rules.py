"""What cannot be saved in a checkpoint yet, and why."""

from __future__ import annotations

from engine.axes.consistency import CONSISTENCY
from engine.errors import UserError
from engine.plan.checkpoint import StartSpec
from engine.plan.consistency import drifts, trains_alone, unwaited
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.optimizers import state_of
from engine.plan.plan import Plan, Wrapper
from engine.plan.updates import OptimizerSpec

_WITHOUT = "Leave checkpoint.every_steps and checkpoint.every_seconds out"


def check_checkpoint(plan: Plan | Wrapper, job: JobSpec) -> None:
    """Of a resolved plan. Raises UserError where a party's state is not captured, or where there is no step after which
    all have the same."""
    if job.checkpoint.start is not None:
        _check_start(plan, job, job.checkpoint.start)
    asked = job.checkpoint.asked
    if asked is None:
        return
    if job.fidelity != "train":
        raise _refused(asked, "a rehearsal learns nothing, so there is nothing to go on from", _WITHOUT)
    if isinstance(plan, Wrapper):
        if plan.hook is None or plan.hook.name != "powersgd":
            return
        rule = "what its hook powersgd keeps inside of PyTorch is not captured yet"
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


def check_fits(source: tuple[JobSpec, ModelDescription], begins: tuple[JobSpec, ModelDescription]) -> None:
    """Raises UserError where the second job cannot begin with a checkpoint of the first."""
    (theirs, there), (ours, here) = source, begins
    was, now = ({p.name: (p.dtype, p.shape) for p in model.parameters} for model in (there, here))
    others = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    if others:
        also = f" ({len(others)} parameters differ)" if len(others) > 1 else ""
        rule = f"{others[0]} is {_form(was.get(others[0]))} there and {_form(now.get(others[0]))} here{also}"
        asked = ours.checkpoint.start.job if ours.checkpoint.start else there.name
        rule = f"that job trains another model ({there.name}): {rule}"
        raise UserError("checkpoint.start.job", asked, rule, "Name a job with the same model")
    name = theirs.optimizer.name
    if ours.optimizer.name != name:
        rule = f"that job's optimizer is {name}, whose state means nothing to another one"
        raise UserError("optimizer.name", ours.optimizer.name, rule, f"Use {name}, or name another job")
    for parameter in now:
        kept, needed = (set(_slots(job.optimizer, parameter)) for job in (theirs, ours))
        if needed - kept:
            rule = f"{name} keeps {', '.join(sorted(needed - kept))} of {parameter} here, and did not there"
            remedy = "Use that job's options, or name another job"
            raise UserError("optimizer.options", ours.optimizer.options, rule, remedy)


def _slots(spec: OptimizerSpec, parameter: str) -> tuple[str, ...]:
    return state_of(spec.name, spec.options_of(parameter)) or ()


def _form(found: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if found is None else f"{found[0]} {list(found[1])}"


def _check_start(plan: Plan | Wrapper, job: JobSpec, start: StartSpec) -> None:
    """Whether a job can begin with another one's checkpoint."""
    asked: tuple[str, float | str] = ("start.job", start.job)
    without = "Leave checkpoint.start out"
    if job.fidelity != "train":
        raise _refused(asked, "a rehearsal learns nothing, and begins with nothing", without)
    if isinstance(plan, Wrapper):
        return
    if drifts(plan.consistency) or unwaited(plan.consistency) or trains_alone(plan.consistency):
        rule = (
            f"under {plan.consistency.mode} workers have no step in common with which all of them could begin"
        )
        raise _refused(asked, rule, f"Choose a strategy that exchanges in every step, or: {without}")
    if any(layer.placement != "replicated" for layer in plan.layers):
        rule = "the model is divided over several places, and a checkpoint is not divided so yet"
        raise _refused(asked, rule, f"Choose a strategy in which every worker has the model, or: {without}")


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


def _refused(asked: tuple[str, float | str], rule: str, remedy: str) -> UserError:
    field, value = asked
    return UserError(f"checkpoint.{field}", value, rule, remedy)
