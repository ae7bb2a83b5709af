"""A recorder that keeps everything until it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from engine.telemetry.detail import DetailPolicy
from engine.telemetry.recorder import Recorder


def full_recorder(attempt: int, party: int, now_ns: Callable[[], int] = lambda: 0) -> Recorder:
    """Of one worker."""
    return Recorder(
        party,
        f"worker {party}",
        now_ns,
        None,
        attempt=attempt,
        flush_s=3600,
        detail=DetailPolicy(mode="all"),
    )
