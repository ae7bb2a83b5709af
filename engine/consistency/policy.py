"""Policy: the few questions that modes of consistency answer differently, asked by every driver.

A worker's clock counts the steps that it has contributed. A unit's version counts its updates. Under every-step both
are the same; where workers drift, a unit has seen some workers' steps and not yet others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias


class Contribution(NamedTuple):
    """What one worker adds to one unit in one of its steps."""

    rank: int
    step: int
    """The worker's own, 0 first."""
    read: int
    """Version of the unit that it was computed on."""
    incarnation: int = 0
    """How often the worker had been started anew."""


@dataclass(kw_only=True)
class Clocks:
    """What a unit's home knows of who has come how far."""

    version: int = 0
    """How many updates the unit has seen."""
    contributed: dict[int, int] = field(default_factory=dict)
    """By worker that is alive: how many of its steps have arrived."""
    applied: dict[int, int] = field(default_factory=dict)
    """By worker: how many of its steps are in the unit."""
    finished: set[int] = field(default_factory=set)
    """Workers that contribute nothing more."""

    @property
    def active(self) -> set[int]:
        """Workers whose contributions may still come."""
        return set(self.contributed) - self.finished

    @property
    def clock(self) -> int:
        """How many steps are in the unit whole: nobody contributes any more to them, and all that was is applied. It is
        the version where each step makes one update; steps that nobody contributed make none, as after the loss of all
        workers, who return at a later one."""
        open_ranks = (
            rank
            for rank, contributed in self.contributed.items()
            if rank not in self.finished or self.applied[rank] < contributed
        )
        return min(
            (self.applied[rank] for rank in open_ranks), default=max(self.contributed.values(), default=0)
        )

    def staleness(self, contribution: Contribution) -> int:
        """Updates of the unit since the version that the contribution was computed on. What joins an update does so
        after the update before it, so for what is applied this is the same when it is admitted and when it is updated
        with; while a contribution is held, it grows."""
        return self.version - contribution.read


class Apply(NamedTuple):
    """The contribution joins the update that is next."""


class Hold(NamedTuple):
    """The contribution waits for a later update."""


Verdict: TypeAlias = Apply | Hold


class Policy(Protocol):
    """One mode. Pure: the same answers to the same questions."""

    lockstep: bool
    """Whether no update can begin before every worker has the answer to the one before: answers need no copy, and may
    overwrite a worker's parameters where they are."""
    in_place: bool
    """Whether a worker begins no step before the answer to its last contribution: what comes then is what it needs, and
    may overwrite its parameters where they are. Else its steps begin with what there is."""
    least_workers: int
    """With fewer that have not been lost there are no updates any more."""
    least_set_by: str
    """The setting of the plan's consistency that `least_workers` follows from; empty where it follows from none."""
    waits_for_slowest: bool
    """Whether who is ahead waits for who is behind: then a worker that was lost joins again where the slowest of the
    others is. Else it goes on with the step that it was lost in, and all that it would have contributed is."""
    most_ahead: int | None
    """By so many steps a worker may begin one ahead of the slowest. None: nobody waits for another one."""

    def admit(self, contribution: Contribution, clocks: Clocks) -> Verdict:
        """What becomes of a contribution that has arrived, or was held."""
        ...

    def due(self, joined: Sequence[Contribution], clocks: Clocks) -> bool:
        """Whether those that have joined make an update now."""
        ...

    def rate(self, joined: Sequence[Contribution], clocks: Clocks) -> float:
        """What the learning rate of the update that these make is multiplied by."""
        ...

    def readable(self, rank: int, clocks: Clocks) -> bool:
        """Whether a worker that has contributed all its steps so far may have the unit for its next one."""
        ...

    def needs(self, step: int) -> int:
        """The clock that an answer must have before the worker's own forward pass of `step` may use the unit."""
        ...
