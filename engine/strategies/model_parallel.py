"""model-parallel: the layers lie in a row on several devices, and micro-batches pass them like an assembly line.

For models that are too large for one device (papers 001, model parallelism): each worker holds one stage, a contiguous
run of layers; activations travel to the next stage, their gradients back. The job's `training.micro_batches` are in
flight at once. With more workers than stages the model is there several times, and the workers of one stage exchange
its gradients around a ring of their own: data parallelism between machines, model parallelism inside (papers 001).

Update rule: w <- update(w, sum_i g_i), on every worker for its own stage.
Stages are balanced: of all ways to cut, the one whose costliest stage costs least, by operations or by a measured
profile; of those, the one whose activations are smallest.
Schedules: `gpipe` (Huang et al. 2019), all forward and then all backward, keeps the activations of every micro-batch;
`1f1b` (PipeDream-flush, Narayanan et al. 2021) goes backward as soon as it can and keeps those of as many as there are
stages from this one on. Of S stages and M micro-batches, a share (S-1) / (M+S-1) of the time is idle in both.
Bytes per step on the wire: 2 B |a| for each cut, where B is the global batch and |a| one sample's activation (or what
`edge_codec` makes of each micro-batch), and with N replicas 2 (N-1) |W|. Deviation: every stage prepares the batch's
inputs, though only the first one uses them.
Random numbers (dropout) come from the process that computes the stage: they are others than a replica would draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from engine.errors import UserError, require_file
from engine.plan.cluster import Cluster
from engine.plan.description import ModelDescription
from engine.plan.placement_rules import possible_cuts
from engine.plan.plan import Edge, LayerPlan, Pipeline, Plan
from engine.plan.stage_rules import check_row
from engine.profile.profile import read
from engine.strategies.base import Strategy, uniform
from engine.strategies.options import EdgeOptions, RoundsOptions, at_least_one


@dataclass(frozen=True, kw_only=True)
class Options(EdgeOptions):
    """Options of model-parallel."""

    stages: int | None = None
    """Workers that share one model. Null: as many as `cuts` say, else as many as the model can be cut for, of those
    that leave no worker over."""
    schedule: Literal["1f1b", "gpipe"] = "1f1b"
    """In which order a stage computes its micro-batches."""
    cuts: tuple[str, ...] = ()
    """The first layer of every stage but the first. Empty: balanced."""
    profile: str | None = None
    """A measured profile's file, as `trainyard profile` writes it, to balance by. Null: by operations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages is not None:
            at_least_one("stages", self.stages, "workers")
        require_file("profile", self.profile)


def build(model: ModelDescription, cluster: Cluster, options: Options) -> Plan:
    """Cut into balanced stages; with several replicas, a ring for each stage. One stage: nothing is cut."""
    stages = options.stages or (len(options.cuts) + 1 if options.cuts else _stages(model, cluster))
    if options.cuts and len(options.cuts) != stages - 1:
        raise UserError(
            "strategy.options.cuts",
            list(options.cuts),
            f"{stages} stages have {stages - 1} cuts between them",
            "Name the first layer of every stage but the first",
        )
    replicas = cluster.workers // stages if cluster.workers % stages == 0 else 1
    plan = (
        RoundsOptions().plan("model-parallel", model, cluster, exchange="ring-allreduce", depart="when-ready")
        if replicas > 1
        else uniform("model-parallel", model)
    )
    if stages == 1:
        return replace(plan, warnings=_why_whole(model, cluster, options))
    cuts = options.cuts or _balanced(model, stages, options.profile)
    behind = check_row(model, cuts, "strategy.options.cuts")
    order = [place.layer for place in model.cuts]

    def placed(layer: LayerPlan) -> LayerPlan:
        return replace(layer, placement="stage", place=sum(layer.layer in back for back in behind))

    return replace(
        plan,
        layers=tuple(placed(layer) for layer in plan.layers),
        pipeline=Pipeline(stages=stages, schedule=options.schedule),
        edges=tuple(
            Edge(source=order[order.index(cut) - 1], destination=cut, **options.crosses) for cut in cuts
        ),
    )


def _stages(model: ModelDescription, cluster: Cluster) -> int:
    most = min(cluster.workers, len(possible_cuts(model)) + 1)
    return next(stages for stages in range(most, 0, -1) if cluster.workers % stages == 0)


def _why_whole(model: ModelDescription, cluster: Cluster, options: Options) -> tuple[str, ...]:
    """What to say where nobody asked for one stage, and it came to that."""
    if options.stages is not None or cluster.workers == 1:
        return ()
    most = len(possible_cuts(model)) + 1
    if model.uncut or most == 1:
        why = f"it cannot be cut ({model.uncut or 'in front of any layer'})"
    else:
        why = f"it can be cut into 2 to {most} stages, and none of these numbers divides {cluster.workers}"
    return (f"{model.name} is whole on each of the {cluster.workers} workers, and not in stages: {why}.",)


def _balanced(model: ModelDescription, stages: int, profile: str | None) -> tuple[str, ...]:
    """The cuts whose costliest stage costs least."""
    possible = possible_cuts(model)
    if len(possible) < stages - 1:
        why = model.uncut or f"only in front of: {', '.join(possible) or 'none'}"
        raise UserError(
            "strategy.options.stages",
            stages,
            f"{model.name} can be cut {why}" if not model.uncut else f"{model.name} cannot be cut: {why}",
            f"Use at most {len(possible) + 1} stages" if possible else "Choose another strategy",
        )
    costs = _costs(model, profile)
    order = [place.layer for place in model.cuts]
    starts = [0, *(order.index(cut) for cut in possible)]

    def cost(first: int, last: int) -> float:
        """Of the stage from `starts[first]` to before `starts[last]`."""
        until = starts[last] if last < len(starts) else len(order)
        return sum(costs[name] for name in order[starts[first] : until])

    def crossing(index: int) -> int:
        return model.cuts[starts[index]].activation_bytes

    @cache
    def best(first: int, left: int) -> tuple[float, int, tuple[int, ...]]:
        """(costliest stage, bytes that cross, where to cut) of what begins at `first`, in `left` stages."""
        if left == 1:
            return cost(first, len(starts)), 0, ()
        found = []
        for last in range(first + 1, len(starts) - left + 2):
            worst, crossed, cuts = best(last, left - 1)
            found.append((max(cost(first, last), worst), crossed + crossing(last), (last, *cuts)))
        return min(found)

    return tuple(order[starts[index]] for index in best(0, stages)[2])


def _costs(model: ModelDescription, profile: str | None) -> dict[str, float]:
    """What each layer costs: seconds where they were measured, else operations."""
    if profile is None:
        return {layer.name: float(layer.forward_flops) for layer in model.layers}
    try:
        measured = read(Path(profile))
        measured.check(model)
    except UserError as error:
        raise UserError("strategy.options.profile", profile, error.rule, error.remedy) from None
    return {each.layer: each.forward_s + each.backward_s for each in measured.layers}


STRATEGY = Strategy(
    name="model-parallel",
    summary="Layers lie in a row on several devices; micro-batches pass them like an assembly line.",
    loses_when="the model fits on one device, or there are few micro-batches: stages wait for one another.",
    source="papers 001 (model parallelism)",
    proof="exact",
    options=Options,
    build=build,
)
