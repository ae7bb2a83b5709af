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
from engine.plan.consistency import trains_alone
from engine.plan.description import LayerDescription, ModelDescription
from engine.plan.job import JobSpec
from engine.plan.mechanism_options import changed
from engine.plan.memory import copied_for_checkpoint, held, offloaded, state_of_layer
from engine.plan.peak import LayerMemory, Peak, WorkerMemory
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import to_plain
from engine.plan.units_of_measure import format_bytes
from engine.plan.updates import as_scheduled

COPY = "a checkpoint's copy"
"""Beside the parts that are held for as long as training lasts."""


def request_for(job: JobSpec, plan: Plan | Wrapper, model: ModelDescription) -> dict[str, Any]:
    """What `python -m engine.liveness` is asked for worker 0. Raises UserError for what nobody predicts yet."""
    remedy = "Predict it for a replica that trains in float32 on the host"
    if isinstance(plan, Wrapper):
        raise UserError(
            "strategy.name", plan.runner, "PyTorch's own runner keeps memory that is not predicted", remedy
        )
    if job.fidelity != "train":
        raise UserError(
            "fidelity", job.fidelity, "a rehearsal computes nothing, and has no activations", remedy
        )
    if job.cluster.device == "cuda":
        raise UserError(
            "cluster.device", "cuda", "what a GPU's kernels hold while they run is not predicted", remedy
        )
    if plan.edges or plan.pipeline is not None:
        raise UserError(
            "strategy.name", plan.strategy, "the peak of a part of a model is not predicted", remedy
        )
    if trains_alone(plan.consistency):
        raise UserError(
            "strategy.name",
            plan.strategy,
            "what workers keep of their parameters from one average to the next is not predicted",
            "Predict it for a plan that exchanges gradients",
        )
    if job.training.precision == "bf16":
        raise UserError("training.precision", "bf16", "what autocast holds is not predicted", remedy)
    samples = job.pass_samples(job.cluster.workers)
    return {
        "model": to_plain(job.model),
        "data": to_plain(job.data),
        "precision": job.training.precision,
        "threads": job.cluster.threads,
        "samples": samples,
        "micro_batches": job.training.micro_batches,
        "batches": job.training.micro_batches * (1 + plan.input.ahead),
        "optimizer": to_plain(as_scheduled(job.optimizer, job.schedule)),
        "updated": [layer.layer for layer in plan.layers if layer.update == "worker"],
        "described": model.to_dict(),
        "choices": {
            layer.layer: {"activations": layer.activations, "options": to_plain(layer.activation_options)}
            for layer in plan.layers
            if "as-is" not in ACTIVATIONS[layer.activations].traits
        },
    }


def declared_memory(job: JobSpec, plan: Plan, model: ModelDescription) -> tuple[dict[str, int], int]:
    """What the plan declares for worker 0, by part, and how much of that a model's step has not: what is its server
    shard's, if it has one, its codecs', and the copy that is made for a checkpoint."""
    declared = held(plan, model, _first(job, plan), job)
    if copy := copied_for_checkpoint(declared, plan, model, job):
        declared[COPY] = copy
    whole = ("parameters", "gradients", "optimizer state")
    chosen = {layer.layer: layer for layer in plan.layers}
    updated = [
        layer for layer in model.layers if layer.name not in chosen or chosen[layer.name].update == "worker"
    ]
    served = declared["optimizer state"] - sum(state_of_layer(job, layer) for layer in updated)
    return declared, served + sum(size for part, size in declared.items() if part not in whole)


def _first(job: JobSpec, plan: Plan) -> Party:
    """Worker 0."""
    return next(party for party in parties(plan, job.cluster.workers, job.network.hosts) if party.rank == 0)


def worker_memory(job: JobSpec, plan: Plan, model: ModelDescription, peak: Peak) -> WorkerMemory:
    """What `peak` and the plan say of worker 0."""
    declared, beside = declared_memory(job, plan, model)
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
        for layer in model.layers
    ]
    found = WorkerMemory(
        samples=job.pass_samples(job.cluster.workers),
        total=peak.total + beside,
        peak=peak,
        declared=declared,
        beside=beside,
        checkpoint=declared.get(COPY, 0),
        offloaded=offloaded(plan, model, _first(job, plan), job),
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
            f"worker 0, passes of {memory.samples} samples: {format_bytes(memory.total)} at the most,"
            f" in {at_work}{where}",
            f"predicted: {_named(peak.parts)}",
            f"declared: {_named(memory.declared)}",
            *([f"on disk: optimizer state {format_bytes(memory.offloaded)}"] if memory.offloaded else []),
            f"the first two steps: {format_bytes(memory.first)}",
        ]
    )


def _named(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {format_bytes(size)}" for part, size in parts.items() if size) or "nothing"
