"""How an attempt on several nodes ended, from what each says."""

from __future__ import annotations

from typing import Any

import pytest

from backend.executors.base import Ended, Running
from backend.executors.ray_node import Report
from backend.executors.ray_verdict import Lost, Said, must_stop, over, running, verdict
from backend.lifecycle import Reason

RUNS = Report(state=Running(phase="running"))
LOST = Lost(reason=Reason.NODE_LOST, message="node 10.0.0.2 was lost")


def said(status: Any, reason: Reason, at: int, *, follows: bool | None = None) -> Report:
    error = None if follows is None else {"consequence": follows}
    end = Ended(
        status=status, reason=reason, message=f"at {at}", error=error, started_unix_ns=at, ended_unix_ns=at
    )
    return Report(state=end)


DONE = said("succeeded", Reason.COMPLETED, 9)
FAILED = said("failed", Reason.PROCESS_FAILED, 7, follows=False)
MISSED = said("failed", Reason.PROCESS_FAILED, 3, follows=True)
STOPPED = said("cancelled", Reason.CANCELLED, 8)


@pytest.mark.parametrize(
    ("parts", "cancelled", "reason"),
    [
        ((DONE, DONE), False, Reason.COMPLETED),
        ((MISSED, FAILED, STOPPED), False, Reason.PROCESS_FAILED),
        ((MISSED, LOST), False, Reason.NODE_LOST),
        ((FAILED, LOST), False, Reason.PROCESS_FAILED),
        ((DONE, LOST), False, Reason.NODE_LOST),
        ((MISSED, STOPPED), True, Reason.CANCELLED),
        ((DONE, DONE), True, Reason.COMPLETED),
    ],
)
def test_the_cause_is_who_failed_of_its_own_then_a_lost_node(
    parts: tuple[Said, ...], cancelled: bool, reason: Reason
) -> None:
    assert over(parts)
    end = verdict(parts, cancelled=cancelled)
    assert end.reason == reason
    assert (reason != Reason.PROCESS_FAILED) or end.message == "at 7"


def test_whoever_still_runs_is_stopped_once_another_one_failed() -> None:
    assert not must_stop((RUNS, DONE))
    assert must_stop((RUNS, MISSED))
    assert must_stop((None, LOST))
    assert not must_stop((DONE, LOST)), "nothing runs any more"
    assert running((RUNS, None)).phase == "starting"
    assert running((RUNS, DONE)).phase == "running"
