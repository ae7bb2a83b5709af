"""bounded-staleness: the fastest worker waits when it would be more than s steps ahead of the slowest.

Stale synchronous parallel (papers 001, after Ho et al. 2013, "More effective distributed ML via a stale synchronous
parallel parameter server"): a worker at clock c reads what has all contributions of clocks before c - s, and of later
ones what happens to be there. `arrival` applies each contribution as it comes. `clock` applies all of one clock as one
update, in the order of clocks, so that bound 0 is every-step.
Bytes: as every-step. Loses where a worker is always slower than the others: they wait for it all the same, s steps
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.consistency.policy import Apply, Clocks, Contribution, Hold, Verdict
from engine.errors import UserError
from engine.plan.consistency import Consistency

MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class BoundedStalenessSettings(Consistency):
    """Those of bounded-staleness."""

    mode: str = "bounded-staleness"
    bound: int | None = None
    """s: steps that the fastest worker may be ahead of the slowest."""
    apply: Literal["arrival", "clock"] | None = None
    """Whether a contribution is applied on `arrival` (null), or all of one clock as one update, in the order of
    clocks."""
    own_writes: bool | None = None
    """Whether a worker's own contributions are in what it reads: by arrival and with bound 0 they are, by clock with
    another bound they are not. Null: as it is; the other answer is refused, with the reason."""


class BoundedStaleness:
    """Reads wait, contributions do not."""

    settings = BoundedStalenessSettings
    lockstep = False
    in_place = True
    least_workers = 1
    least_set_by = ""
    waits_for_slowest = True

    def __init__(self, bound: int, *, apply: Literal["arrival", "clock"] = "arrival") -> None:
        """`bound`: s, at least 0."""
        self._bound = bound
        self.most_ahead: int | None = bound
        self._by_clock = apply == "clock"

    @classmethod
    def of(cls, settings: BoundedStalenessSettings, workers: int) -> BoundedStaleness:
        """See `engine/consistency/__init__.py`."""
        assert settings.bound is not None, "resolve the plan first"
        return cls(settings.bound, apply=settings.apply or "arrival")

    @staticmethod
    def check(settings: BoundedStalenessSettings, workers: int) -> None:
        """See there."""
        if settings.bound is None or not 0 <= settings.bound <= MOST:
            raise UserError(
                "consistency.bound",
                settings.bound,
                f"must be from 0 (nobody is ahead) to {MOST} steps",
                "Use 2 or 3, say; asynchronous has no bound",
            )
        by_clock = settings.apply == "clock" and settings.bound > 0
        if settings.own_writes and by_clock:
            raise UserError(
                "consistency.own_writes",
                True,
                "by clock a contribution is applied with everybody's of its step, so who waits for its own waits for"
                f" all, whatever the bound ({settings.bound})",
                "Leave it out, use bound 0, or apply: arrival",
            )
        if settings.own_writes is False and not by_clock:
            raise UserError(
                "consistency.own_writes",
                False,
                "an answer comes when the worker's last contribution is in it: by arrival that is at once, and with"
                " bound 0 everybody's are",
                "Leave it out, or use apply: clock with a bound of at least 1, or async-sgd",
            )

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        if self._by_clock and contribution.step > clocks.clock:
            return Hold()
        return Apply()

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        if not self._by_clock:
            return len(joined) == 1
        return bool(joined) and all(clocks.contributed[rank] > joined[0].step for rank in clocks.active)

    def rate(self, joined: Sequence[Contribution], clocks: Clocks) -> float:
        return 1.0

    def readable(self, rank: int, clocks: Clocks) -> bool:
        own = clocks.contributed[rank]
        if self._by_clock:
            return clocks.clock >= own - self._bound
        slowest = min((clocks.applied[each] for each in clocks.active), default=own)
        return clocks.applied[rank] == own and slowest >= own - self._bound

    def needs(self, step: int) -> int:
        return step
