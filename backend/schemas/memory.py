"""A worker's memory, predicted, and what fits into a given one."""

from __future__ import annotations

from backend.schemas.base import Schema
from engine.plan.largest import LargestBatch
from engine.plan.peak import WorkerMemory


class MeasuredMemory(Schema):
    """One figure of one worker's memory, sampled once a second."""

    worker: int
    measure: str
    """As `resident_bytes`; the series of it is `<measure> of <worker's name>`."""
    counted: str
    """What it is, and by whom it is counted."""
    first: int
    """Bytes in the first sample: of the host's memory, what the process held before it had a model."""
    last: int
    """Bytes in the last one."""
    most: int
    """The largest one."""


class LayerHeld(Schema):
    """What memory mechanisms did with one layer's activations on one worker, in the newest step that tells of it."""

    worker: int
    layer: int
    """Index in the model's description; -1: no layer's."""
    name: str
    step: int
    saved: int | None
    """Bytes that were in memory for backward when that began, of one pass. Null: nobody counted. On the host only
    layers with a memory mechanism are counted, by that; on a CUDA device all are, by its allocator."""
    left: int
    """Bytes that left for a second tier of memory."""
    again: int
    """Bytes that a second forward pass saved, beyond what was there when backward began."""
    again_ms: float
    """How long it took."""
    waited_ms: float
    """How long nothing was computed until what had left was back."""


class JobMemory(Schema):
    """What a job's workers held in memory, measured."""

    rehearsed: str | None
    """The label of a rehearsal, which stands beside every value; null for a job that trains."""
    slowed: str | None
    """Which workers are slowed on purpose, and by how much; null: none is."""
    measured: list[MeasuredMemory]
    layers: list[LayerHeld]
    """By worker, in forward order. Empty where nobody counts: see `saved`."""
    revision: int


class MemoryView(Schema):
    """What one worker of a job holds in memory."""

    worker: int
    """Which one: the others hold as much, but for what servers hold. Of a pipeline the fullest of the first replica."""
    memory: WorkerMemory
    """Predicted of a step, without a device, and declared by the plan."""


class LargestBatchView(Schema):
    """The largest batch that a worker of a given memory can have."""

    worker: int
    """Which one: the others hold as much, but for what servers hold."""
    largest: LargestBatch
    """For each way to treat activations, predicted without a device."""
