"""asynchronous: a contribution is applied when it arrives, to whatever the unit is by then.

Update: w <- step(w, g_r(w_s)) at the rate a(s) times the job's, where s, the staleness, counts the updates of the unit
since the version that the gradient was computed on. a = 1 (`constant`), or 1 / max(1, s) (`staleness`: papers 001,
after Zhang et al. 2016, "Staleness-aware async-SGD", section 3.2). The rate is divided, as there, and not the gradient:
with momentum, weight decay or an optimizer that normalizes (adam) that is another update. Deviation: staleness is
counted for each unit by itself, not for the whole model, since units are updated one by one.
Bytes: as every-step, n gradients up and n answers down in each n contributions.
Loses where workers are equally fast: gradients are stale, and a step learns less, while every-step would not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.consistency.policy import Apply, Clocks, Contribution, Verdict
from engine.errors import UserError
from engine.plan.consistency import Consistency

RATES: dict[str, Callable[[int], float]] = {
    "constant": lambda staleness: 1.0,
    "staleness": lambda staleness: 1.0 / max(1, staleness),
}
"""By name: what the learning rate is multiplied by. A new rule is one line."""


@dataclass(frozen=True, kw_only=True)
class AsynchronousSettings(Consistency):
    """Those of asynchronous."""

    mode: str = "asynchronous"
    scaling: str | None = None
    """By which rule the learning rate of an update follows from how stale its contribution is: `constant` (null) not at
    all, `staleness` divides it by the staleness (papers 001)."""
    own_writes: bool | None = None
    """Whether a worker waits, before a step, until its last contribution is in what it reads (null: yes). False: it
    goes on, one contribution behind, and the network is as slow as a whole step before it waits."""


class Asynchronous:
    """Nobody waits for another worker."""

    settings = AsynchronousSettings
    lockstep = False
    least_workers = 1
    least_set_by = ""
    waits_for_slowest = False
    most_ahead: int | None = None

    def __init__(self, scaling: str = "constant", *, own_writes: bool = True) -> None:
        """`own_writes`: whether a worker waits for the answer to its last push; else for that to the one before."""
        self._rate = RATES[scaling]
        self.in_place = own_writes

    @classmethod
    def of(cls, settings: AsynchronousSettings, workers: int) -> Asynchronous:
        """See `engine/consistency/__init__.py`."""
        return cls(settings.scaling or "constant", own_writes=settings.own_writes is not False)

    @staticmethod
    def check(settings: AsynchronousSettings, workers: int) -> None:
        """See there."""
        if settings.scaling is not None and settings.scaling not in RATES:
            raise UserError(
                "consistency.scaling", settings.scaling, "no such rule", f"Use one of: {', '.join(RATES)}"
            )

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        return Apply()

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        return len(joined) == 1

    def rate(self, joined: Sequence[Contribution], clocks: Clocks) -> float:
        (contribution,) = joined
        return self._rate(clocks.staleness(contribution))

    def readable(self, rank: int, clocks: Clocks) -> bool:
        return clocks.applied[rank] == clocks.contributed[rank]

    def needs(self, step: int) -> int:
        return step if self.in_place else step - 1
