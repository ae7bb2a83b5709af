"""Home: the server's side of one unit. It takes contributions, updates, and answers; the policy says when.

Events: a worker's push, its request (pull), its end, its loss and its return. A worker that has pushed waits for an
answer where answers are pushed; elsewhere it is told that there is one (`NOTIFY`), or asks when it needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from engine.consistency.policy import Apply, Clocks, Contribution, Policy, Verdict
from engine.errors import UserError
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Content, Drop, Instruction, Keep, Part, Send, Update
from engine.protocol.messages import Message

Returns: TypeAlias = Literal["push", "notify-pull", "deferred-pull"]


class Home:
    """One unit's. Every method answers what the driver has to do, in order."""

    def __init__(
        self,
        unit: int,
        count: int,
        *,
        workers: int,
        policy: Policy,
        returns: Returns,
        rank_order: bool = False,
        phase: int = 0,
    ) -> None:
        """`count`: elements, or the numbers that are summed in this `phase` in their place. `rank_order`: contributions
        to one update are added in the order of ranks, so that sums repeat bitwise; else as they come."""
        self._unit = unit
        self._count = count
        self._workers = workers
        self._policy = policy
        self._returns = returns
        self._rank_order = rank_order
        self._phase = phase
        self.clocks = Clocks(
            contributed=dict.fromkeys(range(workers), 0), applied=dict.fromkeys(range(workers), 0)
        )
        self._joined: list[Contribution] = []
        """What the next update consists of."""
        self._added = 0
        """How many of these are in the sum."""
        self._held: list[Contribution] = []
        self._untold: set[int] = set()
        """Workers that have contributed since they were last answered, or notified."""
        self._asking: dict[int, int] = {}
        """Workers that wait for an answer -> how many steps they will have contributed: a request may overtake a
        contribution."""
        self._finishing: dict[int, int] = {}
        """Workers that have said how many steps they contribute."""
        self._incarnation: dict[int, int] = {}
        self._left: dict[int, int] = {}
        """Workers that were lost -> how many of their steps had been taken, held ones not counted."""
        self.over = False
        """Nobody contributes any more: who has said so has had the last answer."""

    def begin_at(self, step: int) -> None:
        """All workers begin with `step`, and the unit has seen each step before it whole."""
        self.clocks.version = step
        self.clocks.contributed = dict.fromkeys(range(self._workers), step)
        self.clocks.applied = dict.fromkeys(range(self._workers), step)

    @property
    def lockstep(self) -> bool:
        """Whether all workers are in the same step."""
        return self._policy.lockstep

    def state(self) -> dict[str, Any]:
        """Where workers drift, and none is lost or has finished: what has come of each, as JSON takes it."""
        clocks = self.clocks
        return {
            "version": clocks.version,
            "contributed": [clocks.contributed[rank] for rank in range(self._workers)],
            "applied": [clocks.applied[rank] for rank in range(self._workers)],
            "joined": self._joined,
            "added": self._added,
            "held": self._held,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`. Every worker has still to join at its clock, and then gets the unit."""
        clocks = self.clocks
        clocks.version = state["version"]
        clocks.contributed = dict(enumerate(state["contributed"]))
        clocks.applied = dict(enumerate(state["applied"]))
        self._joined, self._held = (
            [Contribution(rank, step, read) for rank, step, read, _ in state[name]]
            for name in ("joined", "held")
        )
        self._added = state["added"]

    def pushed(self, rank: int, step: int, read: int, incarnation: int = 0) -> list[Instruction]:
        """A worker's contribution of `step` has arrived, computed on version `read`. Raises OutOfStepError."""
        if not self._is_here(rank, incarnation):
            return [Drop(self._unit, rank, step, f"worker {rank} was lost")]
        if step < self.clocks.contributed[rank]:  # workers that average leave steps out
            raise OutOfStepError(
                f"worker {rank} pushed step {step} of unit {self._unit}, which is at"
                f" {self.clocks.contributed[rank]}"
            )
        self.clocks.contributed[rank] = step + 1
        self._untold.add(rank)
        found: list[Instruction] = []
        self._take(Contribution(rank, step, read, incarnation), found, arrives=True)
        return self._go_on(found)

    def pulled(self, rank: int, clock: int, incarnation: int = 0) -> list[Instruction]:
        """A worker asks for the unit as it is to be for its step `clock`."""
        if not self._is_here(rank, incarnation) or self._has_all(rank):
            return []
        self._asking[rank] = clock
        return self._go_on([])

    def finished(self, rank: int, clock: int, incarnation: int = 0) -> list[Instruction]:
        """A worker contributes nothing after its step `clock` - 1. It gets the unit, as if it had contributed one more
        step, when nobody contributes any more: then all have the same."""
        if not self._is_here(rank, incarnation):
            return []
        self._finishing[rank] = clock
        return self._go_on([])

    def lost(self, rank: int) -> list[Instruction]:
        """A worker is gone. What it contributed stays where it is in the sum; what was held is dropped."""
        contributed = self.clocks.contributed.pop(rank, None)
        self._asking.pop(rank, None)
        self._finishing.pop(rank, None)
        self._untold.discard(rank)
        dropped = [each for each in self._held if each.rank == rank]
        self._held = [each for each in self._held if each.rank != rank]
        if contributed is not None:
            self._left[rank] = min((each.step for each in dropped), default=contributed)
        return self._go_on([self._never(each, f"worker {rank} was lost") for each in dropped])

    def check_enough_are_left(self, lost: int) -> None:
        """Raises UserError where there are no updates any more without worker `lost`, which is gone."""
        left, policy = len(self.clocks.contributed), self._policy
        if self.clocks.active and left < policy.least_workers:
            setting = policy.least_set_by
            raise UserError(
                f"consistency.{setting}",
                policy.least_workers,
                f"worker {lost} was lost, and so many {setting} need as many workers: {left} left",
                f"Use fewer {setting} or more workers, or find out from its log why the worker was lost",
            )

    def returned(self, rank: int, incarnation: int) -> int:
        """A worker that was lost is there again, and is about to join. Answers from which of its steps on it may
        contribute to this unit, at least 1: none that it has contributed before. From now on others wait for it where
        they wait for the slowest, so that none of them is too far ahead when it joins."""
        clock = max(1, self._left.get(rank, 0))
        if self._policy.waits_for_slowest:
            clock = max(clock, self.behind)
        self._incarnation[rank] = incarnation
        self._stands_at(rank, clock)
        return clock

    def joined(self, rank: int, clock: int, incarnation: int) -> list[Instruction]:
        """It contributes from its step `clock` on, which is the latest that any unit's home has answered. It gets the
        unit as soon as it may read it, as if it had contributed all steps before."""
        if not self._is_here(rank, incarnation):
            return []
        if self.clocks.contributed[rank] != clock:
            self._stands_at(rank, clock)
        if self._returns == "push":
            self._untold.add(rank)
        else:
            self._asking[rank] = clock
        return self._go_on([])

    def _stands_at(self, rank: int, clock: int) -> None:
        self.clocks.contributed[rank] = self.clocks.applied[rank] = clock
        self.clocks.finished.discard(rank)

    @property
    def waits(self) -> bool:
        """Whether something has come after which other workers' contributions are waited for."""
        return bool(self._joined or self._held or self._untold or self._asking)

    @property
    def behind(self) -> int:
        """The step of which something is missing."""
        return min((self.clocks.contributed[r] for r in self.clocks.active), default=0)

    def missing(self) -> list[int]:
        """Workers that are behind others."""
        furthest = max(self.clocks.contributed.values(), default=0)
        return sorted(r for r in self.clocks.active if self.clocks.contributed[r] < furthest)

    def _take(self, contribution: Contribution, found: list[Instruction], *, arrives: bool) -> None:
        verdict: Verdict = self._policy.admit(contribution, self.clocks)
        unit, (rank, step, *_) = self._unit, contribution
        if isinstance(verdict, Apply):
            self._joined.append(contribution)
            if not self._rank_order:
                found.append(self._add(contribution, kept=not arrives))
            elif arrives:
                found.append(Keep(unit, rank, step))
        else:
            self._held.append(contribution)
            if arrives:
                found.append(Keep(unit, rank, step))

    def _never(self, held: Contribution, reason: str) -> Drop:
        return Drop(self._unit, held.rank, held.step, reason, kept=True)

    def _add(self, contribution: Contribution, *, kept: bool) -> Add:
        self._added += 1
        rank, step, *_ = contribution
        return Add(self._unit, rank, step, 0, 0, self._count, self._added == 1, kept)

    def _go_on(self, found: list[Instruction]) -> list[Instruction]:
        """And whatever can happen now."""
        clocks = self.clocks
        for rank, clock in self._finishing.items():
            if clocks.contributed.get(rank) == clock:  # it may have overtaken the last contribution
                clocks.finished.add(rank)
        while self._joined and self._policy.due(self._joined, self.clocks):
            self._update(found)
            held, self._held = self._held, []
            for contribution in held:
                self._take(contribution, found, arrives=False)
        if self._untold or self._asking:
            self._answers(found)
        if clocks.finished and not clocks.active and not self._joined:
            self._answer_last(found)
        return found

    def _answer_last(self, found: list[Instruction]) -> None:
        """Nobody contributes any more."""
        self.over = True
        left_over, self._held = self._held, []
        found += [self._never(each, "nobody contributes the steps before it") for each in left_over]
        ranks = {r for r in self.clocks.finished if r in self._finishing and r in self.clocks.contributed}
        for rank in ranks:
            del self._finishing[rank]
            self._untold.discard(rank)
            self._asking.pop(rank, None)
        found += [self._answer(alike, clock + 1) for clock, alike in self._by_clock(ranks)]

    def _update(self, found: list[Instruction]) -> None:
        if self._rank_order:
            found += [self._add(each, kept=True) for each in sorted(self._joined)]
        clocks = self.clocks
        parts: tuple[Part, ...] = ()
        if not self._policy.lockstep:
            parts = tuple(
                Part(each.rank, each.step, clocks.staleness(each), each.incarnation) for each in self._joined
            )
        rate = self._policy.rate(self._joined, clocks)
        clocks.version += 1
        last = 0
        for rank, step, *_ in self._joined:
            clocks.applied[rank] = max(clocks.applied[rank], step + 1)
            last = max(last, step)
        self._joined, self._added = [], 0
        found.append(Update(self._unit, clocks.version, last, parts, rate))

    def _answers(self, found: list[Instruction]) -> None:
        """To whom may read now, and asks or is to be told."""
        readable, clocks = self._policy.readable, self.clocks
        if self._returns == "push":
            self._answer_all({r for r in self._untold if readable(r, clocks)}, found)
            return
        if self._returns == "notify-pull":
            news = {r for r in self._untold if readable(r, clocks)}
            self._untold -= news
            for clock, ranks in self._by_clock(news):
                found.append(Send(ranks, Message.NOTIFY, self._unit, clock - 1, version=clocks.version))
        asking = self._asking.items()
        self._answer_all(
            {r for r, clock in asking if clocks.contributed[r] >= clock and readable(r, clocks)}, found
        )

    def _answer_all(self, ranks: set[int], found: list[Instruction]) -> None:
        if ranks:
            self._untold -= ranks
            for rank in ranks & self._asking.keys():
                del self._asking[rank]
            found += [self._answer(alike, clock) for clock, alike in self._by_clock(ranks)]

    def _by_clock(self, ranks: set[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Those that are answered alike, together: what they get is encoded once."""
        clocks = self.clocks.contributed
        for clock in sorted({clocks[r] for r in ranks}):
            yield clock, tuple(sorted(r for r in ranks if clocks[r] == clock))

    def _has_all(self, rank: int) -> bool:
        """Whether it has had the last answer: what it asked for meanwhile is older."""
        return rank in self.clocks.finished and rank not in self._finishing

    def _is_here(self, rank: int, incarnation: int) -> bool:
        """Whether it is not a worker that was lost, or one in whose place another has come."""
        return rank in self.clocks.contributed and incarnation == self._incarnation.get(rank, 0)

    def _answer(self, ranks: tuple[int, ...], clock: int) -> Send:
        return Send(
            ranks,
            Message.ANSWER,
            self._unit,
            clock - 1,
            Content.PARAMETERS,
            stop=self._count,
            part=self._phase,
            version=self.clocks.version,
            snapshot=not self._policy.lockstep,
        )
