"""softsync: an update for every s contributions, whoever sent them.

Update: w <- step(w, sum of s contributions g_r(w_s)). Papers 001, after Gupta et al. 2016 ("Model accuracy and runtime
tradeoff in distributed deep learning"): s = 1 is asynchronous, and s = n is every-step where a worker waits until its
contribution is in. Deviation: they average the s contributions; here each carries its weight in the global batch, and
they are summed. A worker that does not wait may contribute twice to an update.
Waiting is for s = 1 and s = n only. Units are updated one by one, and with another s they group contributions
differently: then one worker may wait for its contribution to one unit, a second one to another, each for the other's
next step.
Bytes: as every-step. Loses against every-step where all workers are equally fast, and against asynchronous where one is
so slow that s contributions take long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.consistency.policy import Apply, Clocks, Contribution, Verdict
from engine.errors import UserError
from engine.plan.consistency import Consistency


@dataclass(frozen=True, kw_only=True)
class SoftsyncSettings(Consistency):
    """Those of softsync."""

    mode: str = "softsync"
    contributions: int | None = None
    """s: contributions that make one update."""
    own_writes: bool | None = None
    """Whether a worker waits, before a step, until its last contribution is in what it reads. Null: where s is 1 or all
    workers. True is refused with another s."""


class Softsync:
    """The unit waits for s contributions."""

    settings = SoftsyncSettings
    lockstep = False
    in_place = True
    least_set_by = "contributions"
    waits_for_slowest = False

    def __init__(self, contributions: int, *, own_writes: bool = False) -> None:
        """`contributions`: s, from 1 to the number of workers. `own_writes`: whether a worker waits until its last
        contribution is in what it reads; else it gets the unit as it is."""
        self._contributions = self.least_workers = contributions
        self._own_writes = own_writes
        self.most_ahead: int | None = 0 if own_writes and contributions > 1 else None

    @classmethod
    def of(cls, settings: SoftsyncSettings, workers: int) -> Softsync:
        """See `engine/consistency/__init__.py`."""
        assert settings.contributions is not None, "resolve the plan first"
        own = settings.contributions in (1, workers) if settings.own_writes is None else settings.own_writes
        return cls(settings.contributions, own_writes=own)

    @staticmethod
    def check(settings: SoftsyncSettings, workers: int) -> None:
        """See there."""
        contributions = settings.contributions
        if contributions is None or not 1 <= contributions <= workers:
            raise UserError(
                "consistency.contributions",
                contributions,
                f"must be from 1 (asynchronous) to the number of workers, {workers} (all of them)",
                f"Use {max(1, workers // 2)}, say",
            )
        if settings.own_writes and contributions not in (1, workers):
            raise UserError(
                "consistency.own_writes",
                True,
                f"units group their contributions by themselves: with {contributions} of {workers} one worker could"
                " wait for its contribution to one unit, and a second one to another, each for the other's next step",
                f"Leave it out, or use 1 or {workers} contributions",
            )

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        return Apply()

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        """Fewer than s make the last update, when nobody contributes any more."""
        return len(joined) == self._contributions or not clocks.active

    def rate(self, joined: Sequence[Contribution], clocks: Clocks) -> float:
        return 1.0

    def readable(self, rank: int, clocks: Clocks) -> bool:
        return not self._own_writes or clocks.applied[rank] == clocks.contributed[rank]

    def needs(self, step: int) -> int:
        return step
