"""Home: the server's side of one unit. It takes contributions, updates, and answers; the policy says when.

Events: a worker's push, its request (pull), its end, its loss and its return. A worker that has pushed waits for an
answer where answers are pushed; elsewhere it is told that there is one (`NOTIFY`), or asks when it needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from engine.consistency.policy import Apply, Clocks, Contribution, Hold, Policy, Verdict
from engine.protocol.errors import OutOfStepError
from engine.protocol.instructions import Add, Content, Drop, Instruction, Keep, Send, Update
from engine.protocol.kinds import Message

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
    ) -> None:
        """`count`: elements. `rank_order`: contributions to one update are added in the order of ranks, so that sums
        repeat bitwise; else as they come."""
        self._unit = unit
        self._count = count
        self._workers = workers
        self._policy = policy
        self._returns = returns
        self._rank_order = rank_order
        self.clocks = Clocks(
            contributed=dict.fromkeys(range(workers), 0), applied=dict.fromkeys(range(workers), 0)
        )
        self._joined: list[tuple[Contribution, float]] = []
        """What the next update consists of, each with its scale."""
        self._added = 0
        """How many of these are in the sum."""
        self._held: list[Contribution] = []
        self._told: dict[int, int] = {}
        """By worker: the clock up to which it has been answered, or notified."""
        self._asking: dict[int, int] = {}
        """Workers that wait for an answer -> the clock that it has to have."""
        self._incarnation: dict[int, int] = {}

    def pushed(self, rank: int, step: int, read: int, incarnation: int = 0) -> list[Instruction]:
        """A worker's contribution of `step` has arrived, computed on version `read`. Raises OutOfStepError."""
        if not self._is_here(rank, incarnation):
            return [Drop(self._unit, rank, step, f"worker {rank} was lost")]
        if step != self.clocks.contributed[rank]:
            raise OutOfStepError(
                f"worker {rank} pushed step {step} of unit {self._unit}, and it has pushed"
                f" {self.clocks.contributed[rank]} steps of it"
            )
        self.clocks.contributed[rank] = step + 1
        contribution = Contribution(rank, step, read)
        return [*self._take(contribution, arrives=True), *self._go_on()]

    def pulled(self, rank: int, clock: int, incarnation: int = 0) -> list[Instruction]:
        """A worker asks for the unit as it is to be for its step `clock`."""
        if not self._is_here(rank, incarnation):
            return []
        self._asking[rank] = clock
        return list(self._answers())

    def finished(self, rank: int, incarnation: int = 0) -> list[Instruction]:
        """A worker contributes nothing after what it has pushed."""
        if not self._is_here(rank, incarnation):
            return []
        self.clocks.finished.add(rank)
        return self._go_on()

    def lost(self, rank: int) -> list[Instruction]:
        """A worker is gone. What it contributed stays where it is in the sum; what was held is dropped."""
        self.clocks.contributed.pop(rank, None)
        self._asking.pop(rank, None)
        self._told.pop(rank, None)
        dropped = [each for each in self._held if each.rank == rank]
        self._held = [each for each in self._held if each.rank != rank]
        drops = [Drop(self._unit, rank, each.step, f"worker {rank} was lost", kept=True) for each in dropped]
        return [*drops, *self._go_on()]

    def returned(self, rank: int, incarnation: int, clock: int) -> list[Instruction]:
        """A worker joins again and will contribute from its step `clock` on, which is after all that it has
        contributed: it gets the unit as it is."""
        self._incarnation[rank] = incarnation
        self.clocks.contributed[rank] = self.clocks.applied[rank] = clock
        self.clocks.finished.discard(rank)
        self._told[rank] = clock
        return [self._answer((rank,), clock)]

    def overdue(self) -> list[int]:
        """Workers of which something is missing, where an update or an answer waits for others."""
        if not (self._joined or self._held or self._asking):
            return []
        furthest = max(self.clocks.contributed.values(), default=0)
        return sorted(r for r in self.clocks.active if self.clocks.contributed[r] < furthest)

    def _take(self, contribution: Contribution, *, arrives: bool) -> Iterator[Instruction]:
        verdict: Verdict = self._policy.admit(contribution, self.clocks)
        unit, (rank, step, _) = self._unit, contribution
        if isinstance(verdict, Hold):
            self._held.append(contribution)
            if arrives:
                yield Keep(unit, rank, step)
        elif isinstance(verdict, Apply):
            self._joined.append((contribution, verdict.scale))
            if not self._rank_order:
                yield self._add(contribution, verdict.scale, kept=not arrives)
            elif arrives:
                yield Keep(unit, rank, step)
        else:
            self.clocks.applied[rank] = step + 1
            yield Drop(unit, rank, step, verdict.reason, kept=not arrives)

    def _add(self, contribution: Contribution, scale: float, *, kept: bool) -> Add:
        self._added += 1
        return Add(
            self._unit,
            contribution.rank,
            contribution.step,
            stop=self._count,
            scale=scale,
            first=self._added == 1,
            kept=kept,
        )

    def _go_on(self) -> list[Instruction]:
        """Whatever can happen now."""
        found: list[Instruction] = []
        while self._joined and self._policy.due([each for each, _ in self._joined], self.clocks):
            found += self._update()
            held, self._held = self._held, []
            for contribution in held:
                found += self._take(contribution, arrives=False)
        return [*found, *self._answers()]

    def _update(self) -> Iterator[Instruction]:
        if self._rank_order:
            for contribution, scale in sorted(self._joined):
                yield self._add(contribution, scale, kept=True)
        self.clocks.version += 1
        for (rank, step, _), _ in self._joined:
            self.clocks.applied[rank] = max(self.clocks.applied[rank], step + 1)
        last = max(each.step for each, _ in self._joined)
        self._joined, self._added = [], 0
        yield Update(self._unit, self.clocks.version, last)

    def _answers(self) -> Iterator[Instruction]:
        """To whom may read now, and asks or is to be told."""
        ready = [r for r in sorted(self.clocks.contributed) if self._policy.readable(r, self.clocks)]
        if self._returns == "push":
            self._asking |= {r: self.clocks.contributed[r] for r in ready if self._is_news(r)}
        elif self._returns == "notify-pull":
            news = tuple(r for r in ready if self._is_news(r))
            self._told |= {r: self.clocks.contributed[r] for r in news}
            for clock, ranks in _by_clock(news, self.clocks.contributed):
                yield Send(ranks, Message.NOTIFY, self._unit, clock - 1, version=self.clocks.version)
        served = tuple(
            r for r in ready if r in self._asking and self._asking[r] <= self.clocks.contributed[r]
        )
        for r in served:
            del self._asking[r]
        self._told |= {r: self.clocks.contributed[r] for r in served}
        for clock, ranks in _by_clock(served, self.clocks.contributed):
            yield self._answer(ranks, clock)

    def _is_here(self, rank: int, incarnation: int) -> bool:
        """Whether it is not a worker that was lost, or one in whose place another has come."""
        return rank in self.clocks.contributed and incarnation == self._incarnation.get(rank, 0)

    def _is_news(self, rank: int) -> bool:
        return self.clocks.contributed[rank] > self._told.get(rank, 0)

    def _answer(self, ranks: tuple[int, ...], clock: int) -> Send:
        return Send(
            ranks,
            Message.ANSWER,
            self._unit,
            clock - 1,
            Content.PARAMETERS,
            stop=self._count,
            version=self.clocks.version,
            snapshot=not self._policy.lockstep,
        )


def _by_clock(ranks: Sequence[int], clocks: dict[int, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Those that are answered alike, together: what they get is encoded once."""
    for clock in sorted({clocks[r] for r in ranks}):
        yield clock, tuple(r for r in ranks if clocks[r] == clock)
