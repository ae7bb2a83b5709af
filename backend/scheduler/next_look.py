"""When a decision may become another one although nothing happens: time alone does it. No clock, no database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend.scheduler import victims

if TYPE_CHECKING:
    from backend.scheduler.decide import State


def next_look(state: State) -> int | None:
    """The next such moment (Unix, ns); None: there is none. A job that has just begun may be asked to make room later,
    one that was asked is counted on for a while only (`victims.py`), and devices are drained from a moment on, or until
    one (`maintenance.py`)."""
    moments = [*state.drained.values(), *state.emptied.values(), *state.back]
    if state.queued and not state.paused and state.outage is None:
        highest = max(job.priority for job in state.queued)
        runs = {run.job_id: run for run in state.occupied.values()}.values()
        moments += [
            run.since_unix_ns + round(victims.SETTLED_S * 1e9)
            for run in runs
            if run.yields and not run.leaving and run.priority < highest
        ]
        moments += [
            run.asked_unix_ns + round(victims.LEAVES_S * 1e9)
            for run in runs
            if run.leaving and run.asked_unix_ns is not None
        ]
    return min((at for at in moments if at > state.now_unix_ns), default=None)
