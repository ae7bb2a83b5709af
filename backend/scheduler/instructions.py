"""What the scheduler is to do with jobs: the answers of `decide.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backend.lifecycle import Reason
from engine.errors import UserError

if TYPE_CHECKING:
    from backend.scheduler.decide import Device


@dataclass(frozen=True, kw_only=True)
class Start:
    """Give the job these devices and start it."""

    job_id: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The job waits; `text` says at which position and for what."""

    job_id: str
    position: int
    """1: the next one of its kind of device; where the server is paused, of all."""
    reason: Reason
    text: str
    blocked_by: tuple[str, ...]
    """The jobs that hold what it needs, or the one just before it in the queue."""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """The job can never run on this inventory."""

    job_id: str
    error: UserError


@dataclass(frozen=True, kw_only=True)
class Preempt:
    """The job makes room: it saves a checkpoint, ends, and queues again."""

    job_id: str
    text: str
    """For whom, or why."""
    for_job: str | None = None
    """Its id. None: what it holds is drained."""


Instruction = Start | Wait | Refuse | Preempt
