"""The policy that a plan's consistency asks for."""

from __future__ import annotations

from engine.consistency.every_step import EveryStep
from engine.consistency.policy import Policy
from engine.plan.consistency import Consistency


def policy_of(consistency: Consistency, workers: int) -> Policy:
    """For one unit's home, or one worker. Workers that average wait for one another at every average."""
    assert consistency.mode in ("every-step", "average"), consistency.mode
    return EveryStep(workers)
