"""A recorder that keeps the steps and nothing else: what the real one's cost is measured against.

No event is packed, folded or kept, nothing is sampled, and nothing is written before the end.
"""

from __future__ import annotations

import threading
from typing import Any

from engine.telemetry.recorder import Recorder


class StepTimes(Recorder):
    """One row for each step, written when the recorder closes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As Recorder."""
        super().__init__(*args, **{**options, "flush_s": threading.TIMEOUT_MAX})

    def event(self, *args: Any, **values: Any) -> None:
        """Not kept."""

    def moved(self, *args: Any, **values: Any) -> None:
        """Not kept."""

    def metric(self, *args: Any, **values: Any) -> None:
        """Not kept."""
