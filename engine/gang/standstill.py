"""Which of a gang's processes stand still, and for how long: stopped by a signal, or held by a debugger.

Who has peers is missed by them as soon as it gives no sign of life (`engine/transport/dialogue.py`). Nobody misses the
worker of a job of one, or any worker where all are stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

LOOK_S = 1.0
"""How often it is looked."""
_AWAY_S = 5.0
"""After a longer pause between two looks this process stood still itself, and the others may have with it."""
PEERS_S = 5.0
"""How much longer peers have to say it first: they know what the process was to answer."""


class Standstill:
    """One gang's."""

    def __init__(self, allowed_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowed_s = allowed_s
        self._clock = clock
        self._since_s: dict[str, float] = {}
        """By name, of those that stood still at the last look: when they were first seen so."""
        self._looked_s = clock()

    def over(self, pids: Mapping[str, int]) -> str | None:
        """Who of these has stood still for longer than it is allowed; None where nobody has. On a system that does not
        say (it has no /proc) nobody has."""
        now = self._clock()
        if now - self._looked_s < LOOK_S:
            return None
        before = self._since_s if now - self._looked_s < _AWAY_S else {}
        self._looked_s = now
        self._since_s = {name: before.get(name, now) for name, pid in pids.items() if _stands(pid)}
        return next((name for name, since in self._since_s.items() if now - since > self._allowed_s), None)


def _stands(pid: int) -> bool:
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it has ended
        return False
    return said.rpartition(b")")[2].split()[0] in (b"T", b"t")
