"""The state machine: closed, every way leads to an end, and errors tell the story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backend.lifecycle import (
    ACTIVE,
    ATTEMPT,
    ENDED,
    JOB,
    STOPPING,
    Event,
    InvalidTransitionError,
    Reason,
    State,
    closing_events,
    is_allowed,
    said,
    transition,
)
from backend.scheduler import preempt
from engine.plan.checkpoint import CheckpointSpec


@pytest.mark.parametrize(("table", "first"), [(JOB, State.QUEUED), (ATTEMPT, State.PLACING)])
def test_every_state_is_reached_and_every_state_can_end(table: dict, first: State) -> None:
    reached = {first}
    while grown := {target for (state, _), target in table.items() if state in reached} - reached:
        reached |= grown
    expected = set(State) - {State.PREEMPTED if table is JOB else State.QUEUED}
    assert reached == expected
    leads_to_end = set(ENDED)
    while grown := {state for (state, _), target in table.items() if target in leads_to_end} - leads_to_end:
        leads_to_end |= grown
    assert leads_to_end >= reached


@pytest.mark.parametrize("table", [JOB, ATTEMPT])
def test_ends_are_final_and_every_transition_moves(table: dict) -> None:
    assert not [state for state, _ in table if state in ENDED]
    assert all(state is not target for (state, _), target in table.items())


def test_each_stopping_state_has_one_end() -> None:
    ends = {state: transition(state, Event.ENDED) for state in STOPPING}
    assert ends == {state: State(state.removeprefix("stopping_")) for state in STOPPING}


def test_only_a_failed_attempt_is_followed_by_another_one() -> None:
    assert [state for state, event in JOB if event is Event.RETRY] == [State.STOPPING_FAILED]
    assert transition(State.STOPPING_FAILED, Event.RETRY) is State.QUEUED
    assert transition(State.STOPPING_FAILED, Event.RETRY, table=ATTEMPT) is State.FAILED


@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_a_preempted_attempt_ends_and_its_job_queues(state: State) -> None:
    job, attempt = state, state
    for event in closing_events(state, "preempted"):
        job, attempt = transition(job, event), transition(attempt, event, table=ATTEMPT)
    settled = state.removeprefix("stopping_")
    assert (job, attempt) == ((settled, settled) if state in STOPPING else (State.QUEUED, State.PREEMPTED))


def test_only_what_runs_is_preempted() -> None:
    assert [state for state in State if is_allowed(state, Event.PREEMPT)] == [State.RUNNING]
    every = CheckpointSpec(every_seconds=60)
    allowed = [state for state in State if preempt.refusal(state, every) is None]
    assert allowed == [State.RUNNING, State.PREEMPTING], "twice is harmless"
    assert "begin at step 0 again" in str(preempt.refusal(State.RUNNING, CheckpointSpec()))
    assert "it is queued" in str(preempt.refusal(State.QUEUED, every))


def test_states_are_active_queued_or_ended() -> None:
    assert {State.QUEUED} | ACTIVE | ENDED == set(State)
    assert not ACTIVE & ENDED


def test_the_terminal_calls_every_state_as_the_page_does() -> None:
    page = Path(__file__).parents[2] / "frontend/src/lib/jobState.ts"
    labels = dict(re.findall(r'(\w+): \{ label: "([^"]+)"', page.read_text()))
    assert {state: said(state) for state in State} == labels


def test_cancel_is_possible_until_the_end_is_settled() -> None:
    allowed = {state for state in State if is_allowed(state, Event.CANCEL, table=ATTEMPT)}
    assert allowed == {State.PLACING, State.STARTING, State.RUNNING, State.PREEMPTING}
    for_jobs = {state for state in State if is_allowed(state, Event.CANCEL)}
    assert for_jobs == allowed | {State.QUEUED, State.STOPPING_FAILED}  # the latter ends its retries


def test_an_impossible_event_names_state_event_alternatives_and_story() -> None:
    with pytest.raises(InvalidTransitionError) as caught:
        transition(State.STARTING, Event.PLACED, story=("queued", "placing", "starting"))
    text = str(caught.value)
    assert "placed cannot happen in state starting, which knows began, interrupted, cancel, failed" in text
    assert "queued -> placing -> starting" in text


def test_an_ended_job_knows_no_event() -> None:
    with pytest.raises(InvalidTransitionError, match="it has ended"):
        transition(State.FAILED, Event.BEGAN)


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_closing_events_are_transitions_to_the_right_end(state: State, outcome: str) -> None:
    expected = state.removeprefix("stopping_") if state in STOPPING else outcome
    for table in (JOB, ATTEMPT):
        reached = state
        for event in closing_events(state, outcome):  # type: ignore[arg-type]
            reached = transition(reached, event, table=table)
        assert reached == expected


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_a_job_that_is_tried_again_queues_after_failures_only(state: State, outcome: str) -> None:
    job, attempt = state, state
    for event in closing_events(state, outcome, again=True):  # type: ignore[arg-type]
        job, attempt = transition(job, event), transition(attempt, event, table=ATTEMPT)
    expected = state.removeprefix("stopping_") if state in STOPPING else outcome
    assert attempt == expected
    assert job == (State.QUEUED if expected == "failed" else expected)


@pytest.mark.parametrize("state", [State.QUEUED, *sorted(ENDED)])
def test_what_holds_no_processes_cannot_be_closed(state: State) -> None:
    with pytest.raises(ValueError, match="holds no processes"):
        closing_events(state, "failed")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_text(reason: Reason) -> None:
    assert reason.summary.endswith(".")
    assert reason.remedy == "" or reason.remedy.endswith(".")
