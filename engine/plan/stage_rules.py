"""What cannot combine where a model's layers are in a row on several workers (model parallelism, papers 001).

One rule, one function, one reason, as in `rules.py`, which calls `check_stages`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from engine.errors import UserError
from engine.exchange import EXCHANGE
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.placement_rules import cut_refusal
from engine.plan.plan import LayerPlan, Pipeline, Plan

_MUCH = 0.25
_MICRO_BATCHES_PER_STAGE = 3
"""With which (S-1) / (3S+S-1) of the time is idle, less than a quarter."""
_OWN_ROUNDS = ("ring-allreduce", "tree-allreduce", "recursive-halving-doubling")


def check_stages(plan: Plan, model: ModelDescription, cluster: Cluster, job: JobSpec) -> None:
    """Raises UserError where layers are placed in stages as nobody could run them."""
    placed = [layer for layer in plan.layers if layer.placement == "stage"]
    if plan.pipeline is None:
        if placed:
            raise UserError("pipeline", None, "layers are placed in stages", "Say how many stages there are")
        return
    pipeline = plan.pipeline
    _workers_fill_the_stages(pipeline, cluster)
    for layer in plan.layers:
        _every_layer_has_a_stage(layer, pipeline)
        _replicas_meet_in_rounds(layer, pipeline, cluster)
    if len(plan.edges) != pipeline.stages - 1:
        raise UserError(
            "edges",
            len(plan.edges),
            f"{pipeline.stages} stages have {pipeline.stages - 1} edges between them",
            "Give one edge in front of every stage but the first",
        )
    _stages_are_in_a_row(plan, model)
    _one_norm_for_all(job)
    _steps_are_common(plan)


def warn_of_idle_stages(plan: Plan, job: JobSpec) -> Plan:
    """Of S stages and M micro-batches, (S-1) / (M+S-1) of the time is idle at best: said where that is much."""
    if plan.pipeline is None:
        return plan
    stages, micro_batches = plan.pipeline.stages, job.training.micro_batches
    idle = (stages - 1) / (micro_batches + stages - 1)
    if idle <= _MUCH:
        return plan
    enough = _MICRO_BATCHES_PER_STAGE * stages
    warning = (
        f"training.micro_batches = {micro_batches}: {stages} stages wait for one another at least"
        f" {100 * idle:.0f} % of the time; with {enough} micro-batches less than {100 * _MUCH:.0f} %."
    )
    return replace(plan, warnings=tuple(dict.fromkeys((*plan.warnings, warning))))


def _workers_fill_the_stages(pipeline: Pipeline, cluster: Cluster) -> None:
    if cluster.workers % pipeline.stages:
        raise UserError(
            "cluster.workers",
            cluster.workers,
            f"is no multiple of the {pipeline.stages} stages: every replica of the model needs all of them",
            f"Use {pipeline.stages} or {2 * pipeline.stages} workers, or another number of stages",
        )


def _every_layer_has_a_stage(layer: LayerPlan, pipeline: Pipeline) -> None:
    field = f"layers.{layer.layer}"
    if layer.placement != "stage":
        raise UserError(
            f"{field}.placement", layer.placement, "the other layers are in stages", "Use stage for all"
        )
    if layer.place is None or not 0 <= layer.place < pipeline.stages:
        raise UserError(
            f"{field}.place", layer.place, f"there are {pipeline.stages} stages, from 0", "Name one of them"
        )


def _replicas_meet_in_rounds(layer: LayerPlan, pipeline: Pipeline, cluster: Cluster) -> None:
    field, replicas = f"layers.{layer.layer}.exchange", cluster.workers // pipeline.stages
    if replicas == 1 and layer.exchange != "none":
        raise UserError(field, layer.exchange, "there is one replica of the model", "Use none")
    if replicas > 1 and layer.exchange not in _OWN_ROUNDS:
        raise UserError(
            field,
            layer.exchange,
            f"{replicas} workers hold this stage, and only they exchange it",
            f"Use one of: {', '.join(name for name in EXCHANGE.names if name in _OWN_ROUNDS)}",
        )


def _stages_are_in_a_row(plan: Plan, model: ModelDescription) -> None:
    trained = {layer.layer: layer.place for layer in plan.layers}
    behind = []
    for k, edge in enumerate(plan.edges):
        field = f"edges.{k}.destination"
        if refused := cut_refusal(model, edge.destination, field):
            raise UserError(field, edge.destination, refused, "Cut somewhere else")
        if edge.codec != "fp32":
            raise UserError(f"edges.{k}.codec", edge.codec, "edges have no codec yet", "Use fp32")
        behind.append(model.layers_from(edge.destination))
    for k, (more, less) in enumerate(pairwise(behind)):
        if not less < more:
            raise UserError(
                f"edges.{k + 1}.destination",
                plan.edges[k + 1].destination,
                f"does not come after {plan.edges[k].destination}: the stage between them has no layer",
                "Cut in forward order",
            )
    for name, place in trained.items():
        stage = sum(name in back for back in behind)
        if stage != place:
            raise UserError(
                f"layers.{name}.place", place, f"the cuts put this layer into stage {stage}", f"Use {stage}"
            )


def _one_norm_for_all(job: JobSpec) -> None:
    if job.training.clip_norm is not None:
        raise UserError(
            "training.clip_norm",
            job.training.clip_norm,
            "the global norm needs all gradients in one place, and each stage has its own",
            "Leave clip_norm out, or choose a strategy that replicates every layer",
        )


def _steps_are_common(plan: Plan) -> None:
    if plan.consistency.mode != "every-step":
        raise UserError(
            "consistency.mode", plan.consistency.mode, "stages take every step together", "Use every-step"
        )
