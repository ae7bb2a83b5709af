"""A worker's memory, predicted, and what fits into a given one."""

from __future__ import annotations

from backend.schemas.base import Schema
from engine.plan.largest import LargestBatch
from engine.plan.peak import WorkerMemory


class MemoryView(Schema):
    """What one worker of a job holds in memory."""

    worker: int
    """Which one: the others hold as much, but for what servers hold."""
    memory: WorkerMemory
    """Predicted of a step, without a device, and declared by the plan."""


class LargestBatchView(Schema):
    """The largest batch that a worker of a given memory can have."""

    worker: int
    """Which one: the others hold as much, but for what servers hold."""
    largest: LargestBatch
    """For each way to treat activations, predicted without a device."""
