"""The life of a job and of its attempts, as data: states, events, transitions, reasons. No I/O."""

from backend.lifecycle.machine import (
    ATTEMPT,
    JOB,
    InvalidTransitionError,
    closing_events,
    is_allowed,
    transition,
)
from backend.lifecycle.reasons import CURABLE, Reason
from backend.lifecycle.states import ACTIVE, ENDED, STOPPING, Event, Outcome, State, said

__all__ = [
    "ACTIVE",
    "ATTEMPT",
    "CURABLE",
    "ENDED",
    "JOB",
    "STOPPING",
    "Event",
    "InvalidTransitionError",
    "Outcome",
    "Reason",
    "State",
    "closing_events",
    "is_allowed",
    "said",
    "transition",
]
