"""Whether a member of a race was disturbed by what else ran on the machine: one rule for verdicts and for what to try
next."""

from __future__ import annotations

from backend.schemas.races import Standing
from engine.telemetry import limits


def crowded(standing: Standing) -> bool:
    """Whether the processors were full, and others than its job had more of them than it."""
    return (
        standing.limit is not None
        and standing.limit.crowded
        and standing.processors is not None
        and standing.processors.busy >= limits.PROCESSORS
    )
