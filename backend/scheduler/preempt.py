"""Whether a job can make room for others now, and go on later. No clock, no database, no processes."""

from __future__ import annotations

from backend.lifecycle import State, said
from engine.plan.checkpoint import CheckpointSpec


def refusal(state: State, checkpoint: CheckpointSpec) -> str | None:
    """Why a job in `state` cannot be preempted, with the remedy; None where it can, or is about to be."""
    if state is not State.RUNNING and state is not State.PREEMPTING:
        return f"it is {said(state)}, and only a job that runs makes room. Wait until it runs, or cancel it"
    if checkpoint.asked is None:
        return (
            "it has no checkpoints, so that it would begin at step 0 again. Submit jobs with checkpoint.every_steps or"
            " checkpoint.every_seconds, or cancel it"
        )
    return None
