"""Who follows commits looks again after trouble and when it said so, and ends when it is closed."""

from __future__ import annotations

import threading
import time

from backend.db import Database
from backend.services.watch import Watch

DEADLINE_S = 60.0


def test_it_looks_again_after_trouble_and_when_it_said_so(database: Database) -> None:
    looks: list[float] = []
    enough = threading.Event()

    def look() -> float | None:
        looks.append(time.monotonic())
        if len(looks) == 1:
            raise OSError("disk full")
        if len(looks) == 3:
            enough.set()
        return 0.01 if len(looks) == 2 else None

    watch = Watch(database, "of a test", look)
    watch.again_s = 0.01
    watch.start()
    try:
        assert enough.wait(DEADLINE_S), f"{len(looks)} of 3 looks"
    finally:
        watch.close()


def test_it_ends_though_it_was_closed_just_before_it_looked(database: Database) -> None:
    ended = threading.Event()

    class ClosedRightAfterwards(threading.Event):
        """Asked whether it is closed, it says no, and is closed before the answer is read."""

        def wait(self, timeout: float | None = None) -> bool:
            answer = super().wait(timeout)
            self.set()
            watch.wake()
            return answer

    watch = Watch(database, "of a test", lambda: None)
    watch.closed = ClosedRightAfterwards()
    loop = watch._loop

    def until_ended() -> None:
        loop()
        ended.set()

    watch._thread = threading.Thread(target=until_ended, daemon=True)
    watch.start()
    assert ended.wait(DEADLINE_S)
