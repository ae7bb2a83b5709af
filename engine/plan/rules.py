"""What cannot combine, and what follows from a combination. One rule, one function, one reason; those about one layer
are in `layer_rules.py`.

`resolve(plan, ...)` answers the plan with every derived choice made concrete and its warnings, or raises one
UserError for all rules that are broken, each with its remedy. It is called wherever a plan enters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.errors import UnknownNameError, UserError, refusals, refuse
from engine.plan.averaging import settle_averaging
from engine.plan.checkpoint_rules import check_checkpoint
from engine.plan.cluster import Cluster, workload_of
from engine.plan.consistency import trains_alone
from engine.plan.description import ModelDescription
from engine.plan.drift_rules import check_consistency, warn_of_an_empty_record
from engine.plan.inputs import check_input, input_warnings
from engine.plan.job import JobSpec
from engine.plan.layer_rules import (
    is_served,
    layer_refusals,
    only_workers_update,
    why_only_workers_update,
)
from engine.plan.loss_rules import check_worker_loss
from engine.plan.offload import P, check_offload, with_offload_words
from engine.plan.placement_rules import check_placement, settle_workload
from engine.plan.plan import LayerPlan, Plan, Wrapper, replicas
from engine.plan.shares import settle_shares
from engine.plan.stage_rules import check_stages, warn_of_idle_stages
from engine.plan.traffic import factors_against_gradient
from engine.plan.units import sums_in_phases
from engine.plan.units_of_measure import format_rate

MOST_SERVERS = 1024


def resolve(plan: Plan | Wrapper, model: ModelDescription, cluster: Cluster, job: JobSpec) -> Plan | Wrapper:
    """Validate `plan` for this model, cluster and job, and settle what `auto` means."""
    _directories_are_of_your_own_code(job)
    if isinstance(plan, Wrapper):
        check_input(job.input, model)
        check_worker_loss(plan, job)
        check_checkpoint(plan, job)
        check_offload(plan, job)
        _every_pass_has_a_sample(plan, cluster, job)
        _native_cannot_be_paced(True, cluster)
        if plan.runner == "fsdp":
            _shards_are_updated_by_themselves(job)
            _shards_have_one_type(model)
            _shards_have_a_dimension(model)
            _nothing_is_empty(model)
        return with_offload_words(_warn_of_a_mean(plan, model), job)
    _nothing_is_empty(model)
    _covers_the_model(plan, model)
    native = any("counted" not in EXCHANGE[layer.exchange].traits for layer in plan.layers)
    refuse(
        [
            *refusals(_every_pass_has_a_sample, plan, cluster, job),
            *refusals(_servers_fit, plan, cluster),
            *refusals(check_placement, plan, model, cluster, job),
            *refusals(check_stages, plan, model, cluster, job),
            *refusals(check_consistency, plan, job),
            *refusals(check_worker_loss, plan, job),
            *refusals(check_input, job.input, model),
            *refusals(check_offload, plan, job),
            *refusals(_majorities_are_not_clipped, plan, job),
            *(error for layer in plan.layers for error in layer_refusals(layer, plan, model, cluster, job)),
            *refusals(_native_cannot_be_paced, native, cluster),
        ]
    )
    plan = _settle_update_sites(settle_averaging(plan, model, job), job)
    check_checkpoint(plan, job)
    plan = settle_shares(settle_workload(_settle_workload(plan, model, job), job), model, cluster)
    warnings = (*plan.warnings, *input_warnings(job.input, rehearsed=job.rehearsed is not None))
    plan = with_offload_words(replace(plan, input=job.input, warnings=warnings), job)
    return warn_of_an_empty_record(warn_of_idle_stages(_warn_of_a_mean(plan, model), job), job)


def _warn_of_a_mean(plan: P, model: ModelDescription) -> P:
    """It would train with other gradients than meant, without a word."""
    if not model.mean_loss:
        return plan
    warning = (
        'Your loss returns the mean over its batch, and has to return the sum over its samples (reduction="sum"):'
        " it is divided by the number of targets of the whole batch afterwards, so that with the mean all gradients"
        " are too small, by the number of targets that a worker has in one pass."
    )
    return replace(plan, warnings=(*plan.warnings, warning))


def _directories_are_of_your_own_code(job: JobSpec) -> None:
    """Whoever names a directory means the code in it, and would train something else without a word."""
    for field, source in (("model", job.model), ("data", job.data)):
        if source.name is not None and source.directory is not None:
            raise UserError(
                f"{field}.directory",
                source.directory,
                f"an entry point is imported from a directory, and {source.name!r} is one of ours",
                "Leave it out, or give entrypoint, as module:function, in place of name",
            )


def _every_pass_has_a_sample(plan: Plan | Wrapper, cluster: Cluster, job: JobSpec) -> None:
    sharing, training = replicas(plan, cluster.workers), job.training
    least = sharing * training.micro_batches
    if training.global_batch < least:
        who = "workers" if sharing == cluster.workers else "replicas of all stages"
        raise UserError(
            "training.global_batch",
            training.global_batch,
            f"smaller than {sharing} x {training.micro_batches} ({who} x micro-batches)",
            f"Use at least {least}, or fewer {'workers' if training.micro_batches == 1 else 'micro_batches'}",
        )


def _nothing_is_empty(model: ModelDescription) -> None:
    for parameter in model.parameters:
        if parameter.trainable and parameter.count == 0:
            raise UserError(
                "model",
                parameter.name,
                f"this parameter of shape {parameter.shape} has no elements to train",
                "Remove it, or set its requires_grad to False",
            )


def _covers_the_model(plan: Plan, model: ModelDescription) -> None:
    trainable = {layer.name for layer in model.layers if any(p.trainable for p in layer.parameters)}
    for entry in plan.layers:
        if entry.layer not in trainable:
            raise UnknownNameError(
                f"layers.{entry.layer}", entry.layer, f"trainable layer of {model.name}", trainable
            )
    missing = sorted(trainable - {entry.layer for entry in plan.layers})
    if missing:
        raise UserError(
            "layers", missing, "these layers have no entry", "Give every trainable layer one entry"
        )


def _servers_fit(plan: Plan, cluster: Cluster) -> None:
    if plan.servers.count > MOST_SERVERS:
        raise UserError(
            "servers.count", plan.servers.count, f"more than {MOST_SERVERS} cannot be run", "Use fewer shards"
        )
    served = [layer for layer in plan.layers if is_served(layer)]
    count = plan.servers.count
    if served and count == 0:
        raise UserError("servers.count", 0, f"{served[0].exchange} needs a server", "Use at least one shard")
    if count and not served:
        raise UserError("servers.count", count, "no layer's exchange uses a server", "Use 0")
    if plan.servers.where == "beside" and count > cluster.workers:
        raise UserError(
            "servers.count",
            count,
            f"only {cluster.workers} workers to stand beside",
            "Use fewer, or dedicated servers",
        )


def _majorities_are_not_clipped(plan: Plan, job: JobSpec) -> None:
    voting = [layer for layer in plan.layers if "votes" in CODEC[layer.codec].traits]
    if voting and job.training.clip_norm is not None:
        raise UserError(
            "training.clip_norm",
            job.training.clip_norm,
            f"layers.{voting[0].layer}.codec is {voting[0].codec}, and majorities have one norm, the square root of the"
            " number of elements, whatever the gradients are: every step would be scaled by the same",
            "Leave it out, and lower the learning rate",
        )


def _native_cannot_be_paced(native: bool, cluster: Cluster) -> None:
    if native and cluster.rate_bps is not None and not cluster.shaped and cluster.workers > 1:
        raise UserError(
            "network.rate",
            format_rate(cluster.rate_bps),
            "the native backends cannot be paced in software",
            "Give network.hosts too (the links of a lab keep it), leave network.rate out, or choose a strategy on"
            " our own transport",
        )


def _shards_are_updated_by_themselves(job: JobSpec) -> None:
    if not job.optimizer.elementwise:
        raise UserError(
            "optimizer.name",
            job.optimizer.name,
            "it looks at whole parameters, of which a worker under fsdp holds a part",
            "Choose an element-wise optimizer such as sgd or adamw, or ddp",
        )


def _shards_have_one_type(model: ModelDescription) -> None:
    by_type: Counter[str] = Counter()
    for parameter in model.parameters:
        by_type[parameter.dtype] += parameter.nbytes
    for layer in model.layers:
        types = {p.dtype for p in layer.parameters if p.trainable}
        if types and not layer.name:  # shards of the root are cut with whatever is left over
            types.add(by_type.most_common(1)[0][0])
        if len(types) > 1:
            raise UserError(
                "strategy.name",
                "fsdp",
                f"fully_shard wants one type of parameter in a layer; {layer.name or 'the model itself'}"
                f" trains {' and '.join(sorted(types))}",
                "Use ddp, or any strategy of ours",
            )


def _shards_have_a_dimension(model: ModelDescription) -> None:
    for parameter in model.parameters:
        if parameter.shape == ():
            raise UserError(
                "strategy.name",
                "fsdp",
                f"fully_shard cuts parameters along their first dimension, and {parameter.name} has none",
                "Give it the shape (1,), or use ddp, or any strategy of ours",
            )


def _settle_update_sites(plan: Plan, job: JobSpec) -> Plan:
    """`auto` becomes the server where there is one, unless the update must see everything, whole tensors, or votes, or
    what the layer's codec makes can be summed in phases, after which both ways move little."""
    reason, _ = why_only_workers_update(job)
    layers, moved = [], False
    for layer in plan.layers:
        site = layer.update
        if site == "auto":
            on_workers = only_workers_update(layer, job) or _would_sum_in_phases(plan, layer)
            site = "server" if is_served(layer) and not on_workers else "worker"
            moved |= is_served(layer) and bool(reason)
        layers.append(replace(layer, update=site))
    warnings = list(plan.warnings)
    if moved:
        warnings.append(f"{reason}; servers answer with summed gradients.")
    alone = trains_alone(plan.consistency)
    if job.training.clip_norm is not None and job.cluster.workers > 1 and not alone:
        warnings.append(
            "training.clip_norm is a barrier: no layer is updated before the last gradient has arrived, so"
            " communication does not overlap the next forward pass."
        )
    return replace(plan, layers=tuple(layers), warnings=tuple(dict.fromkeys(warnings)))


def _would_sum_in_phases(plan: Plan, layer: LayerPlan) -> bool:
    """Whether all workers would sum what the codec makes, if they updated, and nobody chose how servers answer."""
    phased = CODEC[layer.codec].phases is not None and layer.answers == LayerPlan.answers
    return phased and sums_in_phases(plan, replace(layer, update="worker"))


def _settle_workload(plan: Plan, model: ModelDescription, job: JobSpec) -> Plan:
    """What sizes factors, where there are any; and a warning where they are larger than the gradient."""
    mine = [layer for layer in plan.layers if "factored" in EXCHANGE[layer.exchange].traits]
    if not mine:
        return replace(plan, workload=None)
    workload, warnings = workload_of(job), list(plan.warnings)
    for layer in mine:
        described = model.layer(layer.layer)
        times = factors_against_gradient(described, workload, layer.encoding)
        if times > 1 and job.cluster.workers > 1:
            often = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
            warnings.append(
                f"{described.title} moves {often} times as many bytes by factors as its gradient would: a step of"
                f" {workload.samples} samples is too large for it."
            )
    if job.fidelity == "rehearse":
        warnings.append(
            "Late multiplications are replayed: each takes as long as its layer's forward pass over all workers'"
            " samples."
        )
    return replace(plan, workload=workload, warnings=tuple(dict.fromkeys(warnings)))
