"""What cannot combine where a model's layers are in a row on several workers (model parallelism, papers 001).

One rule, one function, one reason, as in `rules.py`, which calls what has no underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.axes.exchange import EXCHANGE
from engine.errors import UserError
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.placement_rules import check_divided, cut_refusal, possible_cuts
from engine.plan.plan import LayerPlan, Pipeline, Plan, replicas

_MUCH = 0.25
_MICRO_BATCHES_PER_STAGE = 3
"""With which (S-1) / (3S+S-1) of the time is idle, less than a quarter."""


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
    if len(plan.edges) != pipeline.stages - 1:
        raise UserError(
            "edges",
            len(plan.edges),
            f"{pipeline.stages} stages have {pipeline.stages - 1} edges between them",
            "Give one edge in front of every stage but the first",
        )
    _stages_are_in_a_row(plan, model)
    check_divided(
        plan, model, job, homes="each stage has its own", common="a replica's stages take every step together"
    )


def check_layer_in_stage(layer: LayerPlan, plan: Plan, cluster: Cluster) -> None:
    """Raises UserError where the workers of a layer's stage could not exchange it as it says."""
    if plan.pipeline is None:
        return
    field, holders = f"layers.{layer.layer}.exchange", replicas(plan, cluster.workers)
    if holders == 1 and layer.exchanges:
        raise UserError(field, layer.exchange, "there is one replica of the model", "Use none")
    able = [m.name for m in EXCHANGE if m.rounds is not None and "counted" in m.traits]
    if holders > 1 and layer.exchange not in able:
        raise UserError(
            field,
            layer.exchange,
            f"{holders} workers hold this stage, and only they exchange it",
            f"Use one of: {', '.join(able)}",
        )


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


def check_row(model: ModelDescription, cuts: Sequence[str], field: str) -> list[frozenset[str]]:
    """The layers behind each of `cuts`, the first layers of every stage but the first. Raises UserError at `field`,
    with the cut's number in place of {}, where one begins no stage."""
    behind: list[frozenset[str]] = []
    for number, cut in enumerate(cuts):
        where = field.format(number)
        refused = cut_refusal(model, cut, where)
        if not refused:
            behind.append(model.layers_from(cut))
            if number and not behind[-1] < behind[-2]:
                refused = f"does not come after {cuts[number - 1]}: the stage between them has no layer"
        if refused:
            possible = ", ".join(possible_cuts(model))
            raise UserError(
                where,
                cut,
                refused,
                f"Cut in forward order, in front of: {possible}" if possible else "Choose another strategy",
            )
    return behind


def _stages_are_in_a_row(plan: Plan, model: ModelDescription) -> None:
    behind = check_row(model, [edge.destination for edge in plan.edges], "edges.{}.destination")
    for layer in plan.layers:
        stage = sum(layer.layer in back for back in behind)
        if stage != layer.place:
            raise UserError(
                f"layers.{layer.layer}.place",
                layer.place,
                f"the cuts put this layer into stage {stage}",
                f"Use {stage}",
            )
