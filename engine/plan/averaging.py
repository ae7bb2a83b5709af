"""Averaging: what a plan must hold whose workers train alone in between, and what follows for it.

Called by `rules.resolve`; one rule, one function, one reason, as there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.axes.codec import CODEC
from engine.axes.consistency import CONSISTENCY
from engine.axes.exchange import EXCHANGE
from engine.errors import UserError, refusals, refuse
from engine.plan.consistency import Alone, trains_alone, unwaited
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.length import steps_per_epoch, total_steps
from engine.plan.optimizers import state_of
from engine.plan.plan import LayerPlan, Plan
from engine.plan.units_of_measure import LARGEST
from engine.plan.updates import as_scheduled


def settle_averaging(plan: Plan, model: ModelDescription, job: JobSpec) -> Plan:
    """The plan with its period in steps, the optimizer's state that travels, and updates on workers. Plans of other
    modes as they are. Raises UserError."""
    if not trains_alone(plan.consistency):
        return plan
    period = _period_in_steps(plan.consistency, model, job)
    _one_average_under_way(plan.consistency, period)
    state = _travelling_state(plan.consistency, job)
    refuse(error for layer in plan.layers for error in refusals(_state_is_not_rounded, layer, state))
    settled = replace(plan.consistency, period=period, period_epochs=None, state=state)
    warnings = dict.fromkeys([*plan.warnings, *_warnings(settled, model, job)])
    return replace(
        plan,
        layers=tuple(replace(layer, update="worker") for layer in plan.layers),
        consistency=settled,
        warnings=tuple(warnings),
    )


def check_layer_averages(layer: LayerPlan, plan: Plan) -> None:
    """Raises UserError, for all that is wrong, where workers average and this layer cannot be."""
    if trains_alone(plan.consistency):
        rules = (
            _every_worker_has_it,
            _differences_can_be_summed,
            _workers_update,
            _fragments_meet_by_themselves,
        )
        refuse(error for rule in rules for error in refusals(rule, layer, plan))
    elif layer.fragment:
        raise UserError(
            f"layers.{layer.layer}.fragment",
            layer.fragment,
            f"means nothing for {plan.consistency.mode}",
            "Leave it out; it belongs to streaming",
        )


def _every_worker_has_it(layer: LayerPlan, plan: Plan) -> None:
    if layer.placement != "replicated":
        raise UserError(
            f"layers.{layer.layer}.placement",
            layer.placement,
            "a worker that trains alone between averages needs the whole model",
            "Use replicated, or consistency every-step",
        )


def _differences_can_be_summed(layer: LayerPlan, plan: Plan) -> None:
    if "sums" not in EXCHANGE[layer.exchange].traits and not unwaited(plan.consistency):
        able = ", ".join(
            m.name for m in EXCHANGE if m.available and "sums" in m.traits and "nothing" not in m.traits
        )
        raise UserError(
            f"layers.{layer.layer}.exchange",
            layer.exchange,
            "it cannot carry what several steps have changed, which workers that average exchange",
            f"Use one of: {able}",
        )


def _workers_update(layer: LayerPlan, plan: Plan) -> None:
    if layer.update == "server":
        raise UserError(
            f"layers.{layer.layer}.update",
            "server",
            "between averages each worker trains alone, so the optimizer runs on the workers",
            "Use worker",
        )


def _fragments_meet_by_themselves(layer: LayerPlan, plan: Plan) -> None:
    """In a step in which one fragment is averaged, nothing of the others travels."""
    assert isinstance(plan.consistency, Alone)
    count = plan.consistency.fragments or 1
    if layer.fragment >= count:
        raise UserError(
            f"layers.{layer.layer}.fragment",
            layer.fragment,
            f"there are {count} fragments, numbered from 0",
            "Use a smaller number, or more fragments",
        )
    if count > 1 and "ordered" in EXCHANGE[layer.exchange].traits:
        raise UserError(
            f"layers.{layer.layer}.exchange",
            layer.exchange,
            "it needs all layers in every average, and fragments are averaged in turn",
            "Use ring-allreduce, or one fragment",
        )
    in_turn = "in-turn" in CONSISTENCY[plan.consistency.mode].traits
    if layer.order.returns == "deferred-pull" and in_turn:
        raise UserError(
            f"layers.{layer.layer}.order.returns",
            layer.order.returns,
            "a step asks for all layers, and fragments are averaged in turn",
            "Use push or notify-pull",
        )


def _one_average_under_way(chosen: Alone, period: int) -> None:
    delay = chosen.delay or 0
    if delay >= period:
        raise UserError(
            "consistency.delay",
            delay,
            f"must be less than the period, which is {period} steps: a fragment has one average under way",
            "Use a smaller delay, or a longer period",
        )


def _period_in_steps(chosen: Alone, model: ModelDescription, job: JobSpec) -> int:
    if chosen.period_epochs is None:
        assert chosen.period is not None
        return chosen.period
    if model.samples is None:
        raise UserError(
            "consistency.period_epochs",
            chosen.period_epochs,
            "the data set does not say how many samples it has, so an epoch has no length",
            "Give the period in steps",
        )
    steps = chosen.period_epochs * steps_per_epoch(model.samples, job.training.global_batch)
    return max(1, round(min(steps, LARGEST)))


def _travelling_state(chosen: Alone, job: JobSpec) -> tuple[str, ...]:
    """Over all parameter groups: what one of them keeps travels for all, as zeros where it is not kept."""
    if not chosen.optimizer_state:
        return ()
    optimizer = as_scheduled(job.optimizer, job.schedule)
    found: dict[str, None] = {}
    for options in [{}, *(group.options for group in optimizer.groups)]:
        slots = state_of(optimizer.name, {**optimizer.options, **options})
        if slots is None:
            raise UserError(
                "consistency.optimizer_state",
                True,
                f"{optimizer.name} keeps more than one number for each element, which cannot be averaged",
                "Leave it out, or choose an element-wise optimizer such as sgd or adamw",
            )
        found |= dict.fromkeys(slots)
    return tuple(found)


def _state_is_not_rounded(layer: LayerPlan, state: tuple[str, ...]) -> None:
    if state and "lossless" not in CODEC[layer.codec].traits:
        raise UserError(
            f"layers.{layer.layer}.codec",
            layer.codec,
            "the optimizer's state travels, too, and small second moments would vanish",
            "Use fp32, or leave optimizer_state out",
        )


def _warnings(chosen: Alone, model: ModelDescription, job: JobSpec) -> Iterator[str]:
    training = job.training
    assert chosen.period is not None
    if chosen.optimizer_state and not chosen.state:
        yield f"optimizer_state has no effect: {job.optimizer.name} with these options keeps nothing to average."
    steps = training.steps if model.samples is None else total_steps(training, model.samples)
    if steps is not None and steps < chosen.period:
        yield (
            f"The period of {chosen.period} steps is longer than the job, which has {steps}: workers average once, at"
            " its end."
        )
    if training.clip_norm is not None and job.cluster.workers > 1:
        yield "training.clip_norm holds for each worker's own gradients."
