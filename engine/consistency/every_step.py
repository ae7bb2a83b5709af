"""every-step: synchronous SGD. A unit is updated when every worker's contribution of the step is there.

Update: w <- step(w, sum over workers of g_r(w)). Papers 000, section 2. Loses where one worker is late: all wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.consistency.policy import Apply, Clocks, Contribution, Verdict
from engine.plan.consistency import Consistency

_APPLY = Apply()


class EveryStep:
    """No worker uses parameters of version t before all contributions of step t-1 are in them."""

    settings = Consistency

    lockstep = True
    in_place = True
    least_set_by = ""
    waits_for_slowest = True
    most_ahead: int | None = 0

    def __init__(self, workers: int) -> None:
        self._workers = self.least_workers = workers

    @classmethod
    def of(cls, settings: Consistency, workers: int) -> EveryStep:
        """See `engine/consistency/__init__.py`."""
        return cls(workers)

    @staticmethod
    def check(settings: Consistency, workers: int) -> None:
        """There is nothing to set."""

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        return _APPLY

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        return len(joined) == self._workers

    def rate(self, joined: Sequence[Contribution], clocks: Clocks) -> float:
        return 1.0

    def readable(self, rank: int, clocks: Clocks) -> bool:
        return clocks.applied[rank] == clocks.contributed[rank]

    def needs(self, step: int) -> int:
        return step
