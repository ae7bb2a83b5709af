"""The transition tables and the pure functions over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from backend.lifecycle.states import Event, Outcome, State

Table = Mapping[tuple[State, Event], State]

JOB: Table = MappingProxyType(
    {
        (State.QUEUED, Event.PLACED): State.PLACING,
        (State.QUEUED, Event.CANCEL): State.CANCELLED,
        (State.QUEUED, Event.REFUSED): State.FAILED,
        (State.PLACING, Event.LAUNCHED): State.STARTING,
        (State.PLACING, Event.INTERRUPTED): State.QUEUED,
        (State.PLACING, Event.CANCEL): State.STOPPING_CANCELLED,
        (State.PLACING, Event.FAILED): State.STOPPING_FAILED,
        (State.STARTING, Event.BEGAN): State.RUNNING,
        (State.STARTING, Event.INTERRUPTED): State.QUEUED,
        (State.STARTING, Event.CANCEL): State.STOPPING_CANCELLED,
        (State.STARTING, Event.FAILED): State.STOPPING_FAILED,
        (State.RUNNING, Event.CANCEL): State.STOPPING_CANCELLED,
        (State.RUNNING, Event.FAILED): State.STOPPING_FAILED,
        (State.RUNNING, Event.FINISHED): State.STOPPING_SUCCEEDED,
        (State.RUNNING, Event.PREEMPT): State.PREEMPTING,
        (State.PREEMPTING, Event.CANCEL): State.STOPPING_CANCELLED,
        (State.PREEMPTING, Event.FAILED): State.STOPPING_FAILED,
        (State.PREEMPTING, Event.FINISHED): State.STOPPING_SUCCEEDED,
        (State.PREEMPTING, Event.REQUEUED): State.QUEUED,
        (State.STOPPING_CANCELLED, Event.ENDED): State.CANCELLED,
        (State.STOPPING_FAILED, Event.RETRY): State.QUEUED,
        (State.STOPPING_FAILED, Event.CANCEL): State.STOPPING_CANCELLED,
        (State.STOPPING_FAILED, Event.ENDED): State.FAILED,
        (State.STOPPING_SUCCEEDED, Event.ENDED): State.SUCCEEDED,
    }
)
"""A job's transitions; what is not listed cannot happen. Cancelling a job whose attempt has failed already means
that it is not tried again; a job that is to be preempted may end before it is."""

_OF_JOBS_ALONE = {
    *(key for key in JOB if key[0] is State.QUEUED),
    (State.STOPPING_FAILED, Event.CANCEL),
}

ATTEMPT: Table = MappingProxyType(
    {
        **{key: target for key, target in JOB.items() if key not in _OF_JOBS_ALONE},
        (State.PLACING, Event.INTERRUPTED): State.FAILED,
        (State.STARTING, Event.INTERRUPTED): State.FAILED,
        (State.STOPPING_FAILED, Event.RETRY): State.FAILED,
        (State.PREEMPTING, Event.REQUEUED): State.PREEMPTED,
    }
)
"""An attempt's transitions. It is made when its job is placed and never queues: where its launch was broken off, or
the job is tried again, the attempt ends and the job queues for another one."""

_TO_RUN = {State.PLACING: (Event.LAUNCHED, Event.BEGAN), State.STARTING: (Event.BEGAN,)}
"""What has to happen before a job runs."""


class InvalidTransitionError(RuntimeError):
    """An event that the state does not know; the message tells what came before."""

    def __init__(self, state: State, event: Event, table: Table, story: Iterable[str] = ()) -> None:
        self.state = state
        self.event = event
        known = ", ".join(known for s, known in table if s is state) or "no event: it has ended"
        past = " -> ".join(story)
        told = f" Until now: {past}." if past else ""
        super().__init__(f"{event} cannot happen in state {state}, which knows {known}.{told}")


def transition(state: State, event: Event, *, table: Table = JOB, story: Iterable[str] = ()) -> State:
    """The state after `event`. Raises InvalidTransitionError, with `story` (the past states), where the table
    has no such transition."""
    try:
        return table[state, event]
    except KeyError:
        raise InvalidTransitionError(state, event, table, story) from None


def is_allowed(state: State, event: Event, *, table: Table = JOB) -> bool:
    """Whether `event` can happen in `state`."""
    return (state, event) in table


def closing_events(state: State, outcome: Outcome | None, *, again: bool = False) -> tuple[Event, ...]:
    """The events that lead an attempt from `state` to its end, when it turns out to have ended as `outcome`.
    `again`: if that is a failure, the job gets another attempt.

    A short attempt may start and end between two looks at it: the states in between are passed through, so
    that the record is complete. A state that has settled its end keeps it (a cancelled job stays cancelled,
    whatever its processes said while they were stopped); `outcome` may then be None.
    """
    last = Event.RETRY if again else Event.ENDED
    match state:
        case State.STOPPING_FAILED:
            return (last,)
        case State.STOPPING_CANCELLED | State.STOPPING_SUCCEEDED:
            return (Event.ENDED,)
        case State.PLACING | State.STARTING | State.RUNNING | State.PREEMPTING if outcome is not None:
            begins = _TO_RUN.get(state, ())
            asks = () if state is State.PREEMPTING else (Event.PREEMPT,)
            ends: dict[Outcome, tuple[Event, ...]] = {
                "succeeded": (*begins, Event.FINISHED, Event.ENDED),
                "preempted": (*begins, *asks, Event.REQUEUED),
                "failed": (Event.FAILED, last),
                "cancelled": (Event.CANCEL, Event.ENDED),
            }
            return ends[outcome]
    raise ValueError(f"an attempt in state {state} cannot end with outcome {outcome}: it holds no processes")
