"""A worker's memory: the predicted peak of its step beside what its plan declares, and what to ask for it. No torch
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.plan.cluster import Party, parties
from engine.plan.columns import aligned
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.hook_memory import under_way
from engine.plan.job import JobSpec
from engine.plan.mechanism_options import changed
from engine.plan.memory import copied_for_checkpoint, encoding_bytes, held, offloaded, state_of_layer
from engine.plan.peak import LayerMemory, Peak, WorkerMemory
from engine.plan.plan import Plan, Wrapper, replicas
from engine.plan.serde import to_plain
from engine.plan.units_of_measure import format_bytes
from engine.plan.updates import as_scheduled

COPY = "a checkpoint's copy"
"""Beside the parts that are held for as long as training lasts."""
ENCODING = "encoding"
"""Likewise: what a codec, or a hook of DDP's, holds while it makes messages."""


def request_for(job: JobSpec, plan: Plan | Wrapper, model: ModelDescription) -> dict[str, Any]:
    """What `python -m engine.liveness` is asked for worker 0, or for the stages of its replica. Raises UserError for
    what nobody predicts yet."""
    remedy = "Predict it for a replica that trains in float32 on the host"
    if isinstance(plan, Wrapper) and plan.runner != "ddp":
        raise UserError("strategy.name", plan.runner, "what fully_shard holds is not predicted", remedy)
    if job.fidelity != "train":
        raise UserError(
            "fidelity", job.fidelity, "a rehearsal computes nothing, and has no activations", remedy
        )
    if job.cluster.device == "cuda":
        raise UserError(
            "cluster.device", "cuda", "what a GPU's kernels hold while they run is not predicted", remedy
        )
    if isinstance(plan, Plan) and plan.edges and plan.pipeline is None:
        raise UserError(
            "strategy.name",
            plan.strategy,
            "the peak of a part of a model is predicted for stages only",
            "Predict it for model-parallel, or for a plan that replicates all layers",
        )
    if job.training.precision == "bf16":
        raise UserError("training.precision", "bf16", "what autocast holds is not predicted", remedy)
    input = plan.input if isinstance(plan, Plan) else job.input
    return {
        "model": to_plain(job.model),
        "data": to_plain(job.data),
        "precision": job.training.precision,
        "threads": job.cluster.threads,
        "samples": job.pass_samples(replicas(plan, job.cluster.workers)),
        "micro_batches": job.training.micro_batches,
        "batches": job.training.micro_batches * (1 + input.ahead),
        "optimizer": to_plain(as_scheduled(job.optimizer, job.schedule)),
        "updated": [layer.layer for layer in plan.layers if layer.update == "worker"]
        if isinstance(plan, Plan)
        else None,
        **_stages(job, plan, model),
        "described": model.to_dict(),
        "choices": {
            layer.layer: {"activations": layer.activations, "options": to_plain(layer.activation_options)}
            for layer in plan.layers
            if "as-is" not in ACTIVATIONS[layer.activations].traits
        },
    }


def _stages(job: JobSpec, plan: Plan | Wrapper, model: ModelDescription) -> dict[str, Any]:
    if isinstance(plan, Wrapper) or plan.pipeline is None:
        return {}
    cuts = [edge.destination for edge in plan.edges]
    beside = [declared_memory(job, plan, model, stage)[1] for stage in range(len(cuts) + 1)]
    return {"stages": {"schedule": plan.pipeline.schedule, "cuts": cuts, "beside": beside}}


def declared_memory(
    job: JobSpec, plan: Plan | Wrapper, model: ModelDescription, stage: int = 0
) -> tuple[dict[str, int], int]:
    """What the plan declares for worker 0, or another stage's of its replica, by part, and how much of that a model's
    step has not: what is its server shard's, if it has one, its codecs', those at work in backward included, its
    averages', its buckets, and the copy that is made for a checkpoint."""
    declared = held(plan, model, _worker(job, plan, stage), job)
    if working := _encoding(job, plan, model, stage, in_backward=True):
        declared[ENCODING] = working
    if copy := copied_for_checkpoint(declared, plan, model, job):
        declared[COPY] = copy
    whole = ("parameters", "gradients", "optimizer state")
    chosen = {layer.layer: layer for layer in plan.layers}
    updated = [
        layer
        for layer in _layers_of(plan, model, stage)
        if layer.name not in chosen or chosen[layer.name].update == "worker"
    ]
    served = declared["optimizer state"] - sum(state_of_layer(job, layer) for layer in updated)
    return declared, served + sum(size for part, size in declared.items() if part not in whole)


def _encoding(
    job: JobSpec, plan: Plan | Wrapper, model: ModelDescription, stage: int, *, in_backward: bool
) -> int:
    if isinstance(plan, Wrapper):
        return 0
    return encoding_bytes(plan, model, _worker(job, plan, stage), job, in_backward=in_backward)


def _highest(
    job: JobSpec, plan: Plan | Wrapper, model: ModelDescription, peak: Peak, declared: Mapping[str, int]
) -> tuple[Peak, int]:
    """The step's highest moment with what messages are made in, and how much that is beside what is declared: the
    model's own peak, or the end of backward, when nothing is left of activations and all gradients are there."""
    parts = dict.fromkeys(peak.parts, 0)
    parts |= {part: peak.parts[part] for part in ("parameters", "buffers", "inputs", "optimizer state")}
    parts["gradients"] = declared["gradients"]
    ended = replace(peak, total=sum(parts.values()), parts=parts, when="backward", layer=None)
    if isinstance(plan, Wrapper):
        during, after = (under_way(plan, model, each.parts["gradients"]) for each in (peak, ended))
    else:
        working = _encoding(job, plan, model, peak.stage, in_backward=False)
        during, after = 0, max(0, working - declared.get(ENCODING, 0))
    return max((peak, during), (ended, after), key=lambda found: found[0].total + found[1])


def _layers_of(plan: Plan | Wrapper, model: ModelDescription, stage: int) -> list[LayerDescription]:
    """The layers that a worker has: all of them where the model is not cut."""
    if isinstance(plan, Wrapper) or plan.pipeline is None:
        return list(model.layers)
    behind = [model.layers_from(edge.destination) for edge in plan.edges]
    return [layer for layer in model.layers if sum(layer.name in back for back in behind) == stage]


def _worker(job: JobSpec, plan: Plan | Wrapper, stage: int) -> Party:
    """Worker 0, or another stage's of its replica."""
    found = parties(plan, job.cluster.workers, job.network.hosts)
    return next(party for party in found if party.rank == stage)


def worker_memory(job: JobSpec, plan: Plan | Wrapper, model: ModelDescription, peak: Peak) -> WorkerMemory:
    """What `peak` and the plan say of the worker that `peak` is of."""
    declared, beside = declared_memory(job, plan, model, peak.stage)
    peak, more = _highest(job, plan, model, peak, declared)
    if more:
        beside, declared[ENCODING] = beside + more, declared.get(ENCODING, 0) + more
    chosen = {layer.layer: layer for layer in plan.layers}
    layers = [
        LayerMemory(
            layer=layer.name,
            kind=layer.kind,
            activations=changed(chosen[layer.name].activations, chosen[layer.name].memory)
            if layer.name in chosen
            else "keep",
            declared=layer.parameter_bytes + _trained(layer),
            saved=peak.saved.get(layer.name, 0),
        )
        for layer in _layers_of(plan, model, peak.stage)
    ]
    found = WorkerMemory(
        samples=job.pass_samples(replicas(plan, job.cluster.workers)),
        total=peak.total + beside,
        peak=peak,
        declared=declared,
        beside=beside,
        checkpoint=declared.get(COPY, 0),
        offloaded=offloaded(plan, model, _worker(job, plan, peak.stage), job),
        layers=layers,
        text="",
    )
    return replace(found, text=_text(found))


def _trained(layer: LayerDescription) -> int:
    return sum(p.nbytes for p in layer.parameters if p.trainable)


def _text(memory: WorkerMemory) -> str:
    """As a table in plain text."""
    head = ("layer", "kind", "activations", "declared", "saved for backward")
    rows = [
        (row.layer, row.kind, row.activations, format_bytes(row.declared), format_bytes(row.saved))
        for row in memory.layers
    ]
    peak = memory.peak
    where = f" at {peak.layer}" if peak.layer else ""
    at_work = {"again": "a second forward", "update": "the update"}.get(peak.when, peak.when)
    return "\n".join(
        [
            *aligned([head, *rows]),
            "",
            f"worker {peak.stage}, passes of {memory.samples} samples: {format_bytes(memory.total)} at the most,"
            f" in {at_work}{where}",
            f"predicted: {_named(peak.parts)}",
            f"declared: {_named(memory.declared)}",
            *([f"on disk: optimizer state {format_bytes(memory.offloaded)}"] if memory.offloaded else []),
            f"the first two steps: {format_bytes(memory.first)}",
        ]
    )


def _named(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {format_bytes(size)}" for part, size in parts.items() if size) or "nothing"
