"""Devices that are taken out of use: at once, or from a moment on.

A drained device keeps who is on it, unless jobs with checkpoints are to make room, and nobody else gets it. Where that
begins later only jobs that are expected to have ended by then get it; a job of which nobody knows how long it takes
does not. Maintenance may have an end: then the devices are back by themselves. Until then nobody counts on it, as who
repairs something may need longer and takes the devices out of use again.
"""

from __future__ import annotations

from collections.abc import Mapping

KIND = "maintenance"
"""Of the notice that one has begun, or ended."""


def usable(drained: Mapping[str, int], device: str, now_ns: int, duration_ns: int | None) -> bool:
    """Whether a job that starts now may get the device. `drained`: device id to the moment (Unix, ns) from which on it
    is out of use."""
    begins = drained.get(device)
    if begins is None:
        return True
    return duration_ns is not None and now_ns + duration_ns <= begins
