"""What cannot combine in one layer of a plan. One rule, one function, one reason.

`rules.py` asks for all that is refused, layer by layer; what concerns several layers, or the job, is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.axes.codec import CODEC
from engine.axes.exchange import EXCHANGE
from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError, refusals
from engine.plan.averaging import check_layer_averages
from engine.plan.cluster import Cluster
from engine.plan.consistency import drifts, trains_alone
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.drift_rules import check_layer_drifts, policy_where_right
from engine.plan.job import JobSpec
from engine.plan.plan import LayerPlan, Plan, Servers
from engine.plan.stage_rules import check_layer_in_stage

MOST_UNITS = 100_000
"""Slices of one layer."""
_RECURRENT = ("LSTM", "GRU", "RNN")
"""Kinds of layers that take a sequence."""


def layer_refusals(
    layer: LayerPlan, plan: Plan, model: ModelDescription, cluster: Cluster, job: JobSpec
) -> Iterator[UserError]:
    """All that is refused of one layer's choices in `plan`, whatever the others choose."""
    field, described = f"layers.{layer.layer}", model.layer(layer.layer)
    yield from refusals(check_layer_in_stage, layer, plan, cluster)
    yield from refusals(_none_means_one_worker, layer, cluster, field)
    yield from refusals(_returns_belong_to_servers, layer, field)
    yield from refusals(_updates_need_a_server, layer, field)
    yield from refusals(_reducers_are_alone, layer, plan.servers, field)
    yield from refusals(_buckets_have_no_home, layer, field)
    yield from refusals(_buckets_are_taken_whole, layer, field)
    yield from refusals(_slices_can_be_listed, layer, described, field)
    yield from refusals(_ordered_collectives_keep_one_order, layer, field)
    yield from refusals(_sums_of_what_travels_are_exact, layer, field)
    yield from refusals(_what_is_rounded_is_real, layer, described, field)
    yield from refusals(_momentum_is_of_own_gradients, layer, plan, job, field)
    yield from refusals(_momentum_is_applied_once, layer, described, job, field)
    yield from refusals(_votes_are_counted_by_servers, layer, plan, field)
    yield from refusals(_answers_are_parameters, layer, plan, job, field)
    yield from refusals(_answers_come_one_by_one, layer, plan, job, field)
    yield from refusals(_answers_come_nearer, layer, field)
    yield from refusals(_factors_have_a_product, layer, described, field)
    yield from refusals(_factors_are_sent_once, layer, field)
    yield from refusals(_factors_travel_whole, layer, field)
    yield from refusals(check_layer_averages, layer, plan)
    yield from refusals(check_layer_drifts, layer, plan)
    yield from refusals(_servers_update_by_themselves, layer, job, field)
    yield from refusals(_rehearsals_have_no_activations, layer, job, field)
    yield from refusals(_pieces_of_time_have_states, layer, described, field)
    yield from refusals(_rehearsals_have_no_gradients, layer, job, field)
    yield from refusals(_scaled_tensors_have_no_rows, layer, job, field)


def is_served(layer: LayerPlan) -> bool:
    """Whether the layer's contributions meet on server shards."""
    return "server" in EXCHANGE[layer.exchange].traits


def why_only_workers_update(job: JobSpec) -> tuple[str, str]:
    """Why no server can update, and what to change; empty where one can."""
    if job.training.clip_norm is not None:
        reason = "training.clip_norm needs the global norm, so the update runs on the workers"
        return reason, "Leave clip_norm out"
    if not job.optimizer.elementwise:
        reason = f"{job.optimizer.name} looks at whole parameters, so the update runs on the workers"
        return reason, "Choose an element-wise optimizer such as sgd or adamw"
    return "", ""


def only_workers_update(layer: LayerPlan, job: JobSpec) -> bool:
    """Whether that is asked for, or what `auto` comes to, of a layer that is served."""
    votes = layer.update == "auto" and "votes" in CODEC[layer.codec].traits
    return layer.update == "worker" or votes or bool(why_only_workers_update(job)[0])


def _none_means_one_worker(layer: LayerPlan, cluster: Cluster, field: str) -> None:
    if not layer.exchanges and layer.placement == "replicated" and cluster.workers > 1:
        raise UserError(
            f"{field}.exchange",
            layer.exchange,
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


def _updates_need_a_server(layer: LayerPlan, field: str) -> None:
    if not is_served(layer) and layer.update == "server":
        raise UserError(
            f"{field}.update",
            "server",
            f"{layer.exchange} has no server to update on",
            "Use worker, or a server",
        )


def _reducers_are_alone(layer: LayerPlan, servers: Servers, field: str) -> None:
    if "one-shard" in EXCHANGE[layer.exchange].traits and servers.count > 1:
        raise UserError(
            f"{field}.exchange",
            layer.exchange,
            f"a central reducer is one process, and the plan has {servers.count} server shards",
            "Use parameter-server, or one server (the strategy's option servers)",
        )


def _buckets_have_no_home(layer: LayerPlan, field: str) -> None:
    if is_served(layer) and layer.order.unit == "bucket":
        raise UserError(
            f"{field}.order.unit",
            "bucket",
            "servers address layers by key; a bucket has no home shard",
            "Use slices",
        )


def _buckets_are_taken_whole(layer: LayerPlan, field: str) -> None:
    if "unwaited" in EXCHANGE[layer.exchange].traits and layer.order.unit == "bucket":
        raise UserError(
            f"{field}.order.unit",
            "bucket",
            "a worker takes its layers one by one, and what others send comes at any moment: what comes between two"
            " layers of a bucket would be in one of them only",
            "Use layer or slice",
        )


def _slices_can_be_listed(layer: LayerPlan, described: LayerDescription, field: str) -> None:
    """Every party holds a list of all units: a slip in their size must not exhaust its memory."""
    if layer.order.unit != "slice" or not layer.order.size:
        return
    size = described.trainable_count
    count = -(-size // layer.order.size)
    if count > MOST_UNITS:
        raise UserError(
            f"{field}.order.size",
            layer.order.size,
            f"would cut {size} elements into {count} slices, more than {MOST_UNITS}",
            f"Use slices of at least {-(-size // MOST_UNITS)}",
        )


def _ordered_collectives_keep_one_order(layer: LayerPlan, field: str) -> None:
    if "ordered" in EXCHANGE[layer.exchange].traits and layer.order.rank == "priority":
        raise UserError(
            f"{field}.order.rank",
            "priority",
            f"{layer.exchange} collectives hang or mix data unless all ranks issue them in one agreed order",
            "Use fifo, or ring-allreduce whose messages are tagged",
        )


def _sums_of_what_travels_are_exact(layer: LayerPlan, field: str) -> None:
    if "encoded" in EXCHANGE[layer.exchange].traits and "lossless" not in CODEC[layer.codec].traits:
        raise UserError(
            f"{field}.codec",
            layer.codec,
            "the native allreduce would sum encoded values",
            "Use fp32, or ring-allreduce",
        )


def _what_is_rounded_is_real(layer: LayerPlan, described: LayerDescription, field: str) -> None:
    if not any(p.trainable and p.dtype.startswith("complex") for p in described.parameters):
        return
    for what, codec in (("codec", layer.codec), ("answers", layer.answers)):
        if "lossless" not in CODEC[codec].traits:
            raise UserError(
                f"{field}.{what}", codec, "it would drop the imaginary parts of this layer", "Use fp32"
            )


def _momentum_is_of_own_gradients(layer: LayerPlan, plan: Plan, job: JobSpec, field: str) -> None:
    if "own" not in CODEC[layer.codec].traits:
        return
    if trains_alone(plan.consistency):
        meets = "what workers that average have changed in several steps is none"
    elif not is_served(layer):
        meets = f"{layer.exchange} passes on sums of several workers', or what is none"
    elif only_workers_update(layer, job):
        meets = "a server that does not update answers with the sum of all workers'"
    else:
        return
    raise UserError(
        f"{field}.codec",
        layer.codec,
        f"it has a momentum of each worker's own gradients, and {meets}",
        "Use a server that updates, such as parameter-server with update server, or a codec that keeps a residual",
    )


def _momentum_is_applied_once(
    layer: LayerPlan, described: LayerDescription, job: JobSpec, field: str
) -> None:
    if "own" not in CODEC[layer.codec].traits:
        return
    optimizer, cycled = job.optimizer, job.schedule.options.get("cycle_momentum", True)
    given = [optimizer.options_of(p.name).get("momentum", 0) for p in described.parameters if p.trainable]
    if optimizer.name != "sgd":
        why = f"{optimizer.name} is no plain SGD"
    elif any(given):
        why = f"the optimizer has a momentum of {max(given)} for this layer, too"
    elif job.schedule.name == "one-cycle" and cycled:
        why = "the schedule one-cycle gives the optimizer one, too"
    else:
        return
    raise UserError(
        f"{field}.codec",
        layer.codec,
        f"it has the momentum of SGD, and {why}",
        "Use the optimizer sgd with momentum 0, for this layer at least (optimizer.groups), and the codec's own option"
        " momentum",
    )


def _votes_are_counted_by_servers(layer: LayerPlan, plan: Plan, field: str) -> None:
    if "votes" not in CODEC[layer.codec].traits:
        return
    if trains_alone(plan.consistency):
        counts = "what workers that average have changed is as large as it is, while votes have no size"
    elif drifts(plan.consistency):
        counts = f"under {plan.consistency.mode} a contribution is applied when it comes, while a majority is of all"
    elif not is_served(layer):
        counts = f"with {layer.exchange} nobody hears all workers' and tells them what most are for"
    elif layer.update == "server":
        counts = "a server that updates answers with parameters, not with what most are for"
    else:
        return
    raise UserError(
        f"{field}.codec",
        layer.codec,
        f"its messages are votes, and {counts}",
        "Use a server that does not update (parameter-server with update worker, or auto) and consistency every-step,"
        " or a codec that keeps a residual, such as one-bit",
    )


def _answers_are_parameters(layer: LayerPlan, plan: Plan, job: JobSpec, field: str) -> None:
    if not layer.answers_differences:
        return
    if trains_alone(plan.consistency):
        comes = "workers that average get an average, which travels as gradients do"
    elif not is_served(layer):
        comes = f"{layer.exchange} has no server to answer"
    elif only_workers_update(layer, job):
        comes = "a server that does not update answers with sums, which travel as gradients do"
    else:
        return
    raise UserError(
        f"{field}.answers",
        layer.answers,
        f"it is about updated parameters, and {comes}",
        "Leave it out (the codec encodes what returns here), or use a server that updates",
    )


def _answers_come_one_by_one(layer: LayerPlan, plan: Plan, job: JobSpec, field: str) -> None:
    policy = policy_where_right(plan, job)
    if layer.answers_differences and policy is not None and not policy.in_place:
        raise UserError(
            f"{field}.answers",
            layer.answers,
            "a worker that goes on without its own writes keeps only the last answer that has come, and differences"
            " are to be added one by one",
            "Use fp32, or leave own_writes out",
        )


def _answers_come_nearer(layer: LayerPlan, field: str) -> None:
    traits = layer.answer_encoding.traits
    if "own" in traits:
        why = "it has a momentum of a worker's own gradients, and parameters have theirs already"
    elif "votes" in traits:
        why = "its messages have signs and no sizes, and parameters move by more or less"
    elif "random" in traits:
        why = (
            "what it draws at random may be farther from a difference than nothing is, so that what workers hold would"
            " move away from the server's parameters"
        )
    else:
        return
    near = ", ".join(m.name for m in CODEC if m.available and not m.traits & {"own", "random", "votes"})
    raise UserError(f"{field}.answers", layer.answers, why, f"Use one of {near}")


def _factors_have_a_product(layer: LayerPlan, described: LayerDescription, field: str) -> None:
    if "factored" not in EXCHANGE[layer.exchange].traits or described.factors is not None:
        return
    tied = [name for p in described.parameters for name in p.also_used_by]
    why = f"is tied to {', '.join(tied)}" if tied else f"is a {described.kind}"
    if described.no_factors and not tied:
        why += f", and {described.no_factors}"
    raise UserError(
        f"{field}.exchange",
        layer.exchange,
        f"this layer {why}: only a fully-connected layer (torch.nn.Linear) that is trained, and whose parameters"
        " are used in its own calls and nowhere else, has a gradient that is the product of its inputs and error"
        " derivatives",
        "Use an allreduce or a server for this layer",
    )


def _factors_are_sent_once(layer: LayerPlan, field: str) -> None:
    alone = CODEC[layer.codec].traits & {"lossless", "close"}
    if "factored" in EXCHANGE[layer.exchange].traits and not alone:
        raise UserError(
            f"{field}.codec",
            layer.codec,
            "it is near what it encodes only in the sum of many messages, and one batch's factors have no successor",
            f"Use {', '.join(m.name for m in CODEC if m.available and m.traits & {'lossless', 'close'})}",
        )


def _factors_travel_whole(layer: LayerPlan, field: str) -> None:
    if "whole" in EXCHANGE[layer.exchange].traits and layer.order.unit != "layer":
        raise UserError(
            f"{field}.order.unit",
            layer.order.unit,
            "factors have rows of the whole layer; nothing of them belongs to a part of its weight",
            "Use layer: more urgent messages overtake a long one on its way in any case",
        )


def _servers_update_by_themselves(layer: LayerPlan, job: JobSpec, field: str) -> None:
    reason, remedy = why_only_workers_update(job)
    if layer.update == "server" and reason:
        raise UserError(f"{field}.update", "server", reason, f"Use worker. {remedy}")


def _rehearsals_have_no_activations(layer: LayerPlan, job: JobSpec, field: str) -> None:
    if job.fidelity == "rehearse" and "as-is" not in ACTIVATIONS[layer.activations].traits:
        raise UserError(
            f"{field}.activations",
            layer.activations,
            "a rehearsal computes nothing, so it has no activations, and the time that this takes would not be in it",
            "Train the job, or leave this out",
        )


def _pieces_of_time_have_states(layer: LayerPlan, described: LayerDescription, field: str) -> None:
    if "sequences" in ACTIVATIONS[layer.activations].traits and described.kind not in _RECURRENT:
        raise UserError(
            f"{field}.activations",
            layer.activations,
            f"this layer is a {described.kind}, and only {', '.join(_RECURRENT)} hand a state from step to step by"
            " which they can be cut",
            "Ask for it by `kind: LSTM` (or GRU, RNN), and for keep or recompute for cells and all else",
        )


def _rehearsals_have_no_gradients(layer: LayerPlan, job: JobSpec, field: str) -> None:
    for what, way in (("codec", layer.encoding), ("answers", layer.answer_encoding)):
        if job.fidelity == "rehearse" and way.by_value:
            raise UserError(
                f"{field}.{what}",
                way.text,
                "how many bytes it sends depends on values, and a rehearsal's gradients are made up, so its time would"
                " be, too",
                "Train the job, or rehearse a codec whose messages have one size",
            )


def _scaled_tensors_have_no_rows(layer: LayerPlan, job: JobSpec, field: str) -> None:
    for what, way in (("codec", layer.encoding), ("answers", layer.answer_encoding)):
        if job.scale != 1 and "matrices" in way.traits:
            raise UserError(
                f"{field}.{what}",
                way.text,
                f"it factors matrices, and a rehearsal at 1/{job.scale:g} of the true sizes has none, so its messages"
                " would not shrink by that",
                "Use rehearsal.scale 1, or another codec",
            )
