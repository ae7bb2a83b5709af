"""A worker's memory, predicted."""

from __future__ import annotations

from backend.schemas.base import Schema
from engine.plan.peak import WorkerMemory


class MemoryView(Schema):
    """What one worker of a job holds in memory."""

    worker: int
    """Which one: the others hold as much, but for what servers hold."""
    memory: WorkerMemory
    """Predicted of a step, without a device, and declared by the plan."""
