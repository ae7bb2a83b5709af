"""What cannot combine, and what follows from a combination. One rule, one function, one reason.

`resolve(plan, ...)` answers the plan with every derived choice made concrete and its warnings, or raises
UserError with the rule and the remedy. It is called wherever a plan enters: at submission and in workers.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import UnknownNameError, UserError
from engine.exchange import EXCHANGE
from engine.plan.averaging import settle_averaging
from engine.plan.cluster import Cluster, workload_of
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.placement_rules import check_placement, settle_workload
from engine.plan.plan import LayerPlan, Peer, Plan
from engine.plan.stage_rules import check_stages, warn_of_idle_stages
from engine.plan.traffic import factors_against_gradient
from engine.plan.units_of_measure import format_rate

MOST_UNITS = 100_000
"""Slices of one layer."""
MOST_SERVERS = 1024


def resolve(plan: Plan | Peer, model: ModelDescription, cluster: Cluster, job: JobSpec) -> Plan | Peer:
    """Validate `plan` for this model, cluster and job, and settle what `auto` means."""
    if isinstance(plan, Peer):
        _native_cannot_be_paced(True, cluster)
        if plan.runner == "fsdp":
            _shards_are_updated_by_themselves(job)
            _shards_have_one_type(model)
        return plan
    _nothing_is_empty(model)
    _covers_the_model(plan, model)
    _servers_fit(plan, cluster)
    _units_can_be_listed(plan, model)
    check_placement(plan, model, cluster, job)
    check_stages(plan, model, cluster, job)
    for layer in plan.layers:
        field = f"layers.{layer.layer}"
        _none_means_one_worker(layer, cluster, field)
        _returns_belong_to_servers(layer, field)
        _buckets_have_no_home(layer, field)
        _ordered_collectives_keep_one_order(layer, field)
        _native_sums_what_it_is_given(layer, field)
        _half_precision_is_real(layer, model, field)
        _factors_have_a_product(layer, model, field)
        _factors_travel_whole(layer, field)
    _native_cannot_be_paced(any(lp.exchange == "native" for lp in plan.layers), cluster)
    plan = _settle_update_sites(settle_averaging(plan, model, job), job)
    plan = settle_workload(_settle_workload(plan, model, job), job)
    return warn_of_idle_stages(plan, job)


def is_served(layer: LayerPlan) -> bool:
    """Whether the layer's contributions meet on server shards."""
    return "server" in EXCHANGE[layer.exchange].traits


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


def _units_can_be_listed(plan: Plan, model: ModelDescription) -> None:
    """Every party holds a list of all units: a slip in their size must not exhaust its memory."""
    sizes = {layer.name: layer.parameter_count for layer in model.layers}
    for entry in plan.layers:
        count = (
            -(-sizes[entry.layer] // entry.order.size)
            if entry.order.unit == "slice" and entry.order.size
            else 1
        )
        if count > MOST_UNITS:
            raise UserError(
                f"layers.{entry.layer}.order.size",
                entry.order.size,
                f"would cut {sizes[entry.layer]} elements into {count} slices, more than {MOST_UNITS}",
                f"Use slices of at least {-(-sizes[entry.layer] // MOST_UNITS)}",
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
    if count > 1 and any(layer.exchange == "central-reducer" for layer in served):
        raise UserError(
            "servers.count", count, "a central reducer is one process", "Use 1, or parameter-server"
        )
    if plan.servers.where == "beside" and count > cluster.workers:
        raise UserError(
            "servers.count",
            count,
            f"only {cluster.workers} workers to stand beside",
            "Use fewer, or dedicated servers",
        )


def _none_means_one_worker(layer: LayerPlan, cluster: Cluster, field: str) -> None:
    if layer.exchange == "none" and layer.placement == "replicated" and cluster.workers > 1:
        raise UserError(
            f"{field}.exchange",
            "none",
            f"{cluster.workers} workers would never agree on a layer that is not exchanged",
            "Choose an exchange, or one worker",
        )


def _returns_belong_to_servers(layer: LayerPlan, field: str) -> None:
    if is_served(layer) and layer.order.returns == "none":
        raise UserError(
            f"{field}.order.returns",
            "none",
            "a server's answer must return",
            "Use push, notify-pull or deferred-pull",
        )
    if not is_served(layer) and layer.order.returns != "none":
        raise UserError(
            f"{field}.order.returns",
            layer.order.returns,
            f"{layer.exchange} has no server to answer",
            "Use none",
        )
    if not is_served(layer) and layer.update == "server":
        raise UserError(
            f"{field}.update",
            "server",
            f"{layer.exchange} has no server to update on",
            "Use worker, or a server",
        )


def _buckets_have_no_home(layer: LayerPlan, field: str) -> None:
    if is_served(layer) and layer.order.unit == "bucket":
        raise UserError(
            f"{field}.order.unit",
            "bucket",
            "servers address layers by key; a bucket has no home shard",
            "Use slices",
        )


def _ordered_collectives_keep_one_order(layer: LayerPlan, field: str) -> None:
    if "ordered" in EXCHANGE[layer.exchange].traits and layer.order.rank == "priority":
        raise UserError(
            f"{field}.order.rank",
            "priority",
            f"{layer.exchange} collectives hang or mix data unless all ranks issue them in one agreed order",
            "Use fifo, or ring-allreduce whose messages are tagged",
        )


def _native_sums_what_it_is_given(layer: LayerPlan, field: str) -> None:
    if layer.exchange == "native" and layer.codec == "fp16":
        raise UserError(
            f"{field}.codec",
            "fp16",
            "the native allreduce would sum in half precision",
            "Use fp32, or ring-allreduce",
        )


def _half_precision_is_real(layer: LayerPlan, model: ModelDescription, field: str) -> None:
    parameters = model.layer(layer.layer).parameters
    if layer.codec == "fp16" and any(p.trainable and p.dtype.startswith("complex") for p in parameters):
        raise UserError(
            f"{field}.codec",
            "fp16",
            "half precision would drop the imaginary parts of this layer",
            "Use fp32",
        )


def _factors_have_a_product(layer: LayerPlan, model: ModelDescription, field: str) -> None:
    if layer.exchange != "factors" or (described := model.layer(layer.layer)).factors is not None:
        return
    tied = [name for p in described.parameters for name in p.also_used_by]
    why = f"is tied to {', '.join(tied)}" if tied else f"is a {described.kind}"
    raise UserError(
        f"{field}.exchange",
        "factors",
        f"{layer.layer} {why}: only a fully-connected layer (torch.nn.Linear) that is trained, and whose parameters"
        " are used in its own calls and nowhere else, has a gradient that is the product of its inputs and error"
        " derivatives",
        "Use an allreduce or a server for this layer",
    )


def _factors_travel_whole(layer: LayerPlan, field: str) -> None:
    if "whole" in EXCHANGE[layer.exchange].traits and layer.order.unit != "layer":
        raise UserError(
            f"{field}.order.unit",
            layer.order.unit,
            "factors have rows of the whole layer; nothing of them belongs to a part of its weight",
            "Use layer: more urgent messages overtake a long one on its way in any case",
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
    for layer in model.layers:
        types = sorted({p.dtype for p in layer.parameters if p.trainable})
        if len(types) > 1:
            raise UserError(
                "strategy.name",
                "fsdp",
                f"fully_shard wants one type of parameter in a layer; {layer.name} trains {' and '.join(types)}",
                "Use ddp, or any strategy of ours",
            )


def _settle_update_sites(plan: Plan, job: JobSpec) -> Plan:
    """`auto` becomes the server where there is one, unless the update must see everything, or whole tensors."""
    reason, remedy = None, ""
    if job.training.clip_norm is not None:
        reason, remedy = (
            "training.clip_norm needs the global norm, so the update runs on the workers",
            "Leave clip_norm out",
        )
    elif not job.optimizer.elementwise:
        reason = f"{job.optimizer.name} looks at whole parameters, so the update runs on the workers"
        remedy = "Choose an element-wise optimizer such as sgd or adamw"
    layers, moved = [], False
    for layer in plan.layers:
        site = layer.update
        if site == "server" and reason:
            raise UserError(f"layers.{layer.layer}.update", "server", reason, f"Use worker. {remedy}")
        if site == "auto":
            site = "server" if is_served(layer) and not reason else "worker"
            moved |= is_served(layer) and bool(reason)
        layers.append(replace(layer, update=site))
    warnings = list(plan.warnings)
    if moved and reason:
        warnings.append(f"{reason}; servers answer with summed gradients.")
    alone = plan.consistency.mode == "average"
    if job.training.clip_norm is not None and job.cluster.workers > 1 and not alone:
        warnings.append(
            "training.clip_norm is a barrier: no layer is updated before the last gradient has arrived, so"
            " communication does not overlap the next forward pass."
        )
    return replace(plan, layers=tuple(layers), warnings=tuple(dict.fromkeys(warnings)))


def _settle_workload(plan: Plan, model: ModelDescription, job: JobSpec) -> Plan:
    """What sizes factors, where there are any; and a warning where they are larger than the gradient."""
    mine = [layer for layer in plan.layers if layer.exchange == "factors"]
    if not mine:
        return replace(plan, workload=None)
    workload, warnings = workload_of(job), list(plan.warnings)
    for layer in mine:
        times = factors_against_gradient(model.layer(layer.layer), workload, layer.codec)
        if times > 1 and job.cluster.workers > 1:
            warnings.append(
                f"{layer.layer} moves {times:.2g} times as many bytes by factors as its gradient would: a step of"
                f" {workload.samples} samples is too large for it."
            )
    if job.fidelity == "rehearse":
        warnings.append(
            "Late multiplications are replayed: each takes as long as its layer's forward pass over all workers'"
            " samples."
        )
    return replace(plan, workload=workload, warnings=tuple(dict.fromkeys(warnings)))
