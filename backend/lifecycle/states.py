"""The states of jobs and attempts, and the events that move them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Outcome = Literal["succeeded", "failed", "cancelled", "preempted"]
"""How an attempt ends."""


class State(StrEnum):
    """Where a job stands. An attempt has the same states, from `placing` on."""

    QUEUED = "queued"
    """Waits for its devices, or for its next attempt; the reason says for what and behind whom."""
    PLACING = "placing"
    """Holds its devices; its supervisor is not up yet."""
    STARTING = "starting"
    """The supervisor is up and starts the gang."""
    RUNNING = "running"
    """Every process of the gang is up."""
    PREEMPTING = "preempting"
    """It runs, and ends its attempt with a checkpoint as soon as it can; the job queues again then."""
    STOPPING_CANCELLED = "stopping_cancelled"
    STOPPING_FAILED = "stopping_failed"
    STOPPING_SUCCEEDED = "stopping_succeeded"
    """How it ends is settled; processes are ending and the last telemetry is on its way."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    """Of attempts alone: it ended with a checkpoint, from which the job's next one goes on."""


class Event(StrEnum):
    """What happens to a job or an attempt."""

    PLACED = "placed"
    """The scheduler gave it its devices."""
    REFUSED = "refused"
    """It can never be placed: the machine no longer has what it asks for."""
    LAUNCHED = "launched"
    """The executor started its supervisor."""
    INTERRUPTED = "interrupted"
    """Its launch was broken off, as when the server goes down: nothing of it runs, and the job queues again."""
    BEGAN = "began"
    """All processes of the gang are up."""
    CANCEL = "cancel"
    """A person asked for its end."""
    PREEMPT = "preempt"
    """It is to make room for others, and to go on later."""
    REQUEUED = "requeued"
    """No process is left of an attempt that ended with a checkpoint: the job queues once more."""
    FINISHED = "finished"
    """The gang did all its work."""
    FAILED = "failed"
    """A process failed, or could not be started."""
    RETRY = "retry"
    """No process is left of an attempt that failed, and the job is tried again: it queues once more."""
    ENDED = "ended"
    """No process is left, and this is the end."""


STOPPING = frozenset({State.STOPPING_CANCELLED, State.STOPPING_FAILED, State.STOPPING_SUCCEEDED})
_SAID: dict[str, str] = {
    State.STOPPING_CANCELLED: "cancelling",
    State.STOPPING_FAILED: "failing",
    State.STOPPING_SUCCEEDED: "finishing",
}
ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.PREEMPTED})
ACTIVE = frozenset({State.PLACING, State.STARTING, State.RUNNING, State.PREEMPTING}) | STOPPING
"""The states in which an attempt occupies its devices."""


def said(state: str) -> str:
    """A state as people read it: in the words of the page (`frontend/src/lib/jobState.ts`)."""
    return _SAID.get(state, state)
