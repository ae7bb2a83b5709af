"""How an attempt on several nodes ended, from what each of them says. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.executors.base import Ended, Running
from backend.executors.ray_node import Report
from backend.lifecycle import Reason


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Nothing more can be heard of what ran on a node."""

    reason: Reason
    message: str

    def end(self) -> Ended:
        """As an end of what ran there."""
        return Ended(status="failed", reason=self.reason, message=self.message, ended_unix_ns=time.time_ns())


Said = Report | Lost | None
"""What is known of one node's parties; None: it has not answered yet."""


def over(said: Sequence[Said]) -> bool:
    """Whether nothing runs any more."""
    return all(isinstance(one, Lost) or (one is not None and isinstance(one.state, Ended)) for one in said)


def ends(said: Sequence[Said]) -> list[Ended]:
    """Of those nodes that have ended."""
    found = [one.end() if isinstance(one, Lost) else one.state for one in said if one is not None]
    return [state for state in found if isinstance(state, Ended)]


def must_stop(said: Sequence[Said]) -> bool:
    """Whether what still runs runs for nothing."""
    return not over(said) and any(end.status != "succeeded" for end in ends(said))


def running(said: Sequence[Said]) -> Running:
    """Of an attempt that has not ended."""
    states = [one.state for one in said if isinstance(one, Report) and isinstance(one.state, Running)]
    known = [one for one in said if one is not None]
    if len(known) < len(said) or any(state.phase == "starting" for state in states):
        return Running(phase="starting")
    if not ends(said) and states and all(state.phase == "stopping" for state in states):
        return states[0]
    return Running(phase="running")


def verdict(said: Sequence[Said], *, cancelled: bool) -> Ended:
    """Once all have ended. Who failed of its own comes before a lost node, and that before those that failed because
    another one had; `cancelled`: a person asked for the end, so that whoever only missed another one is no failure."""
    found = ends(said)
    own = [one for one in found if one.status == "failed" and not _follows(one)]
    lost = [one.end() for one in said if isinstance(one, Lost)]
    causes = [one for one in own if one.reason != Reason.NODE_LOST] or lost or own
    stopped = [one for one in found if one.status == "cancelled"]
    if causes and not cancelled:
        end = min(causes, key=lambda one: one.ended_unix_ns)
    elif cancelled and (causes or stopped or any(one.status == "failed" for one in found)):
        message = Reason.CANCELLED.summary
        end = Ended(status="cancelled", reason=Reason.CANCELLED, message=message, ended_unix_ns=0)
    else:
        ranks = ("failed", "cancelled", "preempted", "succeeded")
        end = min(found, key=lambda one: (ranks.index(one.status), one.ended_unix_ns))
    started = [one.started_unix_ns for one in found]
    return replace(
        end,
        sealed=False,
        started_unix_ns=None if None in started else max(at for at in started if at is not None),
        ended_unix_ns=max(one.ended_unix_ns for one in found),
    )


def _follows(end: Ended) -> bool:
    """Whether it failed only because another one had."""
    return bool(end.error and end.error.get("consequence"))
