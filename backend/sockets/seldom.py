"""What strangers can cause as often as they like is logged now and then."""

from __future__ import annotations

import time

EVERY_S = 60.0


class Seldom:
    """`due()` is true at most once a minute."""

    def __init__(self) -> None:
        self._said: float | None = None

    def due(self) -> bool:
        now = time.monotonic()
        if self._said is not None and now < self._said + EVERY_S:
            return False
        self._said = now
        return True
