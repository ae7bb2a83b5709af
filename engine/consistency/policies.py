"""The policy that a plan's consistency asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.axes.consistency import CONSISTENCY
from engine.consistency.policy import Policy

if TYPE_CHECKING:
    from engine.plan.consistency import Consistency


def policy_of(consistency: Consistency, workers: int) -> Policy:
    """A new one, for one unit's home or one worker."""
    policy: Policy = CONSISTENCY[consistency.mode].load().of(consistency, workers)
    return policy
