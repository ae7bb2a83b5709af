"""What cannot combine where some layers are computed on one device (hybrid parallelism, papers 000, section 2.2).

One rule, one function, one reason, as in `rules.py`, which calls `check_placement`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.axes.codec import CODEC
from engine.errors import UnknownNameError, UserError
from engine.plan.cluster import Cluster, workload_of
from engine.plan.consistency import drifts, trains_alone
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Edge, LayerPlan, Plan


def check_placement(plan: Plan, model: ModelDescription, cluster: Cluster, job: JobSpec) -> None:
    """Raises UserError where layers are placed as nobody could run them."""
    placed = [layer for layer in plan.layers if layer.placement == "device"]
    _devices_compute_something(plan, placed)
    if not placed:
        return
    _devices_are_there(plan, cluster)
    for layer in placed:
        _one_home_needs_no_exchange(layer)
    if not plan.edges:
        raise UserError(
            "edges", 0, "nothing leads to the layers on a device", "Give one edge: where the model is cut"
        )
    if len(plan.edges) > 1:
        raise UserError("edges", len(plan.edges), "a model is cut in two, at one place", "Give one edge")
    _can_be_cut(plan.edges[0], model)
    _sides_are_whole(plan, placed, model)
    check_divided(
        plan,
        model,
        job,
        homes="here the device has some, the workers the others",
        common="a layer that is computed in one place is the same for all workers in every step",
    )


def settle_workload(plan: Plan, job: JobSpec) -> Plan:
    """What sizes activations, where any travel."""
    return replace(plan, workload=workload_of(job)) if plan.edges else plan


def cut_refusal(model: ModelDescription, layer: str, field: str) -> str:
    """Why `model` cannot be cut in front of `layer`; empty where it can. Raises UnknownNameError, at `field`, where it
    has no such layer."""
    if model.uncut:
        return f"{model.name} cannot be cut: {model.uncut}"
    known = next((x for x in model.layers if x.name == layer), None)
    if known is None:
        raise UnknownNameError(field, layer, f"layer of {model.name}", [x.name for x in model.layers])
    place = model.cut(layer)
    if place is None:
        return f"nothing is known of a cut in front of {layer}"
    if place.refused:
        return f"{model.name} cannot be cut in front of {layer}: {place.refused}"
    if not any(p.trainable for p in known.parameters):
        return f"{layer} is not trained: a cut is named by the first layer of its back that is"
    back = model.layers_from(layer)
    for side, inside in (("in front of", False), ("from", True)):
        if not any(p.trainable for x in model.layers if (x.name in back) is inside for p in x.parameters):
            return f"no layer {side} {layer} is trained"
    return ""


def possible_cuts(model: ModelDescription) -> list[str]:
    """The layers in front of which `model` can be cut."""
    return [place.layer for place in model.cuts if not cut_refusal(model, place.layer, "cut")]


def _devices_compute_something(plan: Plan, placed: list[LayerPlan]) -> None:
    for layer in placed:
        if layer.place not in range(len(plan.devices)):
            raise UserError(
                f"layers.{layer.layer}.place",
                layer.place,
                f"there is no such device: the plan lists {len(plan.devices)}",
                "Name one of them, from 0",
            )
    for number in range(len(plan.devices)):
        if all(layer.place != number for layer in placed):
            raise UserError(
                "devices", number, "this device computes no layer", "Place a layer on it, or leave it out"
            )


def _devices_are_there(plan: Plan, cluster: Cluster) -> None:
    if len(plan.devices) > 1:
        raise UserError(
            "devices",
            len(plan.devices),
            "a model is cut in two: one device computes the back",
            "List one device",
        )
    beside = plan.devices[0].beside
    if beside is not None and beside >= cluster.workers:
        raise UserError(
            "devices.0.beside",
            beside,
            f"there are {cluster.workers} workers, numbered from 0",
            "Name one of them, or leave it out for a process of its own",
        )


def _one_home_needs_no_exchange(layer: LayerPlan) -> None:
    if layer.exchanges:
        raise UserError(
            f"layers.{layer.layer}.exchange",
            layer.exchange,
            "this layer is computed in one place: its gradient is whole there",
            "Use none, or placement: replicated",
        )


def _can_be_cut(edge: Edge, model: ModelDescription) -> None:
    field = "edges.0.destination"
    if refused := cut_refusal(model, edge.destination, field):
        possible = possible_cuts(model)
        raise UserError(
            field,
            edge.destination,
            refused,
            f"Cut in front of one of: {', '.join(possible)}"
            if possible
            else "Choose a strategy that replicates every layer",
        )
    if all(layer.name != edge.source for layer in model.layers):
        raise UnknownNameError(
            "edges.0.source", edge.source, f"layer of {model.name}", [layer.name for layer in model.layers]
        )


def _sides_are_whole(plan: Plan, placed: list[LayerPlan], model: ModelDescription) -> None:
    where = plan.edges[0].destination
    back, found = model.layers_from(where), {layer.layer for layer in placed}
    for layer in plan.layers:
        if (layer.layer in back) != (layer.layer in found):
            side = "from it on" if layer.layer in back else "in front of it"
            right = "device" if layer.layer in back else "replicated"
            raise UserError(
                f"layers.{layer.layer}.placement",
                layer.placement,
                f"the model is cut in front of {where}, and this layer is used {side}",
                f"Use {right}",
            )


def check_divided(plan: Plan, model: ModelDescription, job: JobSpec, *, homes: str, common: str) -> None:
    """What holds wherever a model is divided among processes. Raises UserError; `homes` says where gradients are,
    `common` why every step is everybody's."""
    for number, edge in enumerate(plan.edges):
        _edges_are_sent_once(edge, model, f"edges.{number}.codec")
    if job.training.clip_norm is not None:
        raise UserError(
            "training.clip_norm",
            job.training.clip_norm,
            f"the global norm needs all gradients in one place, and {homes}",
            "Leave clip_norm out, or choose a strategy that replicates every layer",
        )
    if drifts(plan.consistency) or trains_alone(plan.consistency):
        raise UserError(
            "consistency.mode", plan.consistency.mode, common, "Use every-step, or replicate every layer"
        )


def _edges_are_sent_once(edge: Edge, model: ModelDescription, field: str) -> None:
    """What a message loses of an activation, or of its gradient, no later one makes up for."""
    near = {"lossless", "close"}
    if not edge.encoding.traits & near:
        raise UserError(
            field,
            edge.codec,
            "it is near what it encodes only in the sum of many messages, and one micro-batch's activations have no"
            " successor",
            f"Use {', '.join(m.name for m in CODEC if m.available and m.traits & near)}",
        )
    place = model.cut(edge.destination)
    if "lossless" not in edge.encoding.traits and place is not None and place.dtype.startswith("complex"):
        raise UserError(
            field, edge.codec, "it would drop the imaginary parts of what crosses there", "Use fp32"
        )
