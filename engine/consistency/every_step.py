"""every-step: synchronous SGD. A unit is updated when every worker's contribution of the step is there.

Update: w <- step(w, sum over workers of g_r(w)). Papers 000, section 2. Loses where one worker is late: all wait.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.consistency.policy import Apply, Clocks, Contribution, Verdict

_APPLY = Apply()


class EveryStep:
    """No worker uses parameters of version t before all contributions of step t-1 are in them."""

    lockstep = True

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        return _APPLY

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        return len(joined) == self._workers

    def readable(self, rank: int, clocks: Clocks) -> bool:
        return clocks.applied[rank] == clocks.contributed[rank]

    def needs(self, step: int) -> int:
        return step

    def too_few(self, alive: Collection[int]) -> str | None:
        if len(alive) < self._workers:
            return f"every step needs all {self._workers} workers, and {len(alive)} are left"
        return None
