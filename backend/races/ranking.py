"""Who is fastest, and how sure that is: the figures of a race's rounds, compared within each round.

A round is a block: everybody ran once, close together in time. All figures of those that have a place are over the same
blocks, those that all of them ran, so that places, times and ratios follow from one another. The ratio of two members
is the mean over blocks of the logarithm of their ratio within the block, its interval Student's t over blocks
(Montgomery, Design and Analysis of Experiments, section 4.1: the randomized complete block design, two treatments at a
time). Ratios scatter from block to block by at least what the steps of their jobs scatter: where a few blocks agree
better than that, it is luck, and the interval takes the steps' scatter. The fastest is not known before, so that any
two may come to be compared: the error of 5 % is divided among all pairs (Bonferroni). Of races whose members are equal,
at most one in twenty shows a significant difference. What each member gains over the baseline is a matter of pairs
among these, and takes no error of its own.

Who failed in a round has no place: it might be the fastest of the rounds that it survived, and takes no block from the
others. Where it ran enough blocks with the fastest, the two are compared over those, as one more of the pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.races.spec import FEWEST_ROUNDS
from engine.telemetry.comparison import NEAR, certainty
from engine.telemetry.estimates import ERROR, Interval
from engine.telemetry.means import interval_of_mean, missing_values

BASELINE = 0
"""The member that everybody's speed-up is over: the first one that a race names."""
Times = Mapping[Any, float]
"""Median iteration times in ns (or another figure), by block: the round, unless a member ran it by itself."""
NO_ERRORS: Mapping[int, Times] = {}


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A member that has no place, compared with the fastest over the blocks that both ran."""

    fastest: int
    times: float
    """Its iteration time over the fastest one's."""
    interval: Interval
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One member's place."""

    member: int
    rank: int | None
    """1 for the fastest. Those that cannot be told apart from the fastest have its rank, too; likewise with the next
    one. None: it has no place, because it failed in a round, shares too few blocks with the others, or nobody has
    enough of them."""
    iteration_ns: float
    """Geometric mean over `over` of the median iteration time."""
    times_fastest: float | None
    """Its iteration time over the fastest one's; None where it is not compared with it."""
    interval: Interval | None
    """Of `times_fastest`; None with fewer than FEWEST_ROUNDS blocks, and of the fastest itself."""
    significant: bool
    """Whether it is slower than the fastest by more than chance, and by enough (`comparison.certainty`)."""
    unsure: bool
    """Whether there are too few blocks to tell: it may be slower than the fastest by more than NEAR, or not at all."""
    missing: int | None
    """If `unsure`: with so many more blocks that differ as these do, somebody could tell. None: with more than
    MOST_MISSING."""
    speed_up: float | None
    """The baseline's iteration time over its own; None where the two are not compared, and of the baseline itself."""
    speed_up_interval: Interval | None
    """Of `speed_up`; None with fewer than FEWEST_ROUNDS blocks."""
    over: tuple[Hashable, ...]
    """The blocks that this rests on."""
    tied: bool = False
    """Whether others have the same rank."""
    beside: Beside | None = None
    """Of a member that failed, if it ran FEWEST_ROUNDS blocks or more with the fastest."""

    @property
    def rounds(self) -> int:
        """On how many blocks this rests."""
        return len(self.over)


def rank(
    iterations: Mapping[int, Times],
    out: Collection[int] = (),
    baseline: int = BASELINE,
    *,
    failed: Collection[int] = (),
    errors: Mapping[int, Times] = NO_ERRORS,
) -> list[Standing]:
    """The standings of members: those that are compared, fastest first, then the others. Who is `out` is compared
    where it leaves the others enough blocks; who `failed` has no place, unless all have failed. `errors`: standard
    errors of the figures' logarithms by member and block, as far as they are known from the jobs' own steps."""
    known = {member: times for member, times in iterations.items() if times}
    if not known:
        return []
    group = compared({one: times for one, times in known.items() if one not in failed} or known, out)
    over = tuple(block for block in known[group[0]] if all(block in known[member] for member in group))
    mean = {member: geometric([known[member][block] for block in over]) for member in group}
    order = sorted(group, key=mean.__getitem__)
    enough = len(over) >= FEWEST_ROUNDS
    shared = {
        member: [block for block in known[order[0]] if block in known[member]]
        for member in known
        if member in failed and member not in mean
    }
    besides = [member for member, blocks in shared.items() if enough and len(blocks) >= FEWEST_ROUNDS]
    pairs = max(1, math.comb(len(order) + len(besides), 2))

    def beside(member: int) -> Beside | None:
        if member not in besides:
            return None
        interval = interval_of(member, order[0], shared[member])
        assert interval is not None, "there are enough"
        times = geometric([known[member][block] / known[order[0]][block] for block in shared[member]])
        return Beside(fastest=order[0], times=times, interval=interval, rounds=len(shared[member]))

    def interval_of(slow: int, fast: int, blocks: Sequence[Hashable] = over) -> Interval | None:
        ratios = [known[slow][block] / known[fast][block] for block in blocks]
        steps = [errors.get(one, {}).get(block, 0.0) ** 2 for one in (slow, fast) for block in blocks]
        return _interval(ratios, ERROR / pairs, math.sqrt(sum(steps) / max(1, len(blocks))))

    def certainly_slower(slow: int, fast: int) -> bool:
        interval = interval_of(slow, fast) if slow != fast else None
        return interval is not None and certainty(mean[slow] / mean[fast], interval) == "certain"

    standings: list[Standing] = []
    first, leader = 1, order[0]
    """The place that is shared now, and the fastest of those who have it."""
    for place, member in enumerate(order, start=1):
        ratio = mean[member] / mean[order[0]]
        interval = interval_of(member, order[0]) if place > 1 else None
        measured = baseline in mean and member != baseline
        sure = certainty(ratio, interval) if enough and interval is not None else None
        slower, unsure = sure == "certain", sure == "chance"
        if slower and certainly_slower(member, leader):
            first, leader = place, member
        standings.append(
            Standing(
                member=member,
                rank=(first if slower else 1) if enough else None,
                iteration_ns=mean[member],
                times_fastest=ratio,
                interval=interval,
                significant=slower,
                unsure=unsure,
                missing=_missing(ratio, interval, len(over), ERROR / pairs) if unsure and interval else None,
                speed_up=mean[baseline] / mean[member] if measured else None,
                speed_up_interval=interval_of(baseline, member) if measured else None,
                over=over,
            )
        )
    shares = Counter(standing.rank for standing in standings)
    standings = [replace(one, tied=enough and shares[one.rank] > 1) for one in standings]
    return standings + [
        Standing(
            member=member,
            rank=None,
            iteration_ns=geometric(list(times.values())),
            times_fastest=None,
            interval=None,
            significant=False,
            unsure=False,
            missing=None,
            speed_up=None,
            speed_up_interval=None,
            over=tuple(times),
            beside=beside(member),
        )
        for member, times in sorted(known.items())
        if member not in mean
    ]


def compared(known: Mapping[int, Mapping[Any, object]], out: Collection[int]) -> list[int]:
    """The members that are compared: the largest group that shares enough blocks. Where no two do, those that share one
    at all, so that a race that has just begun shows how it stands. Each member of `known` has a block."""
    # Who still runs comes first: who dropped out must not take blocks from the others' comparison.
    order = sorted(known, key=lambda member: (member in out, -len(known[member]), member))
    for least in (FEWEST_ROUNDS, 1):
        groups = [_sharing(first, order, known, least) for first in order if len(known[first]) >= least]
        largest = max(groups, key=len, default=[])
        if len(largest) > 1:
            return largest
    return order[:1]


def _sharing(
    first: int, order: Sequence[int], known: Mapping[int, Mapping[Any, object]], least: int
) -> list[int]:
    """`first`, and who of the others shares at least so many blocks with all that were taken before it."""
    group, shared = [first], set(known[first])
    for member in order:
        if member != first and len(shared & known[member].keys()) >= least:
            group.append(member)
            shared &= known[member].keys()
    return group


def crossings(rates: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Rates at which two curves of iteration times meet, each given at the same ascending `rates`: between two
    neighbours whose order differs, interpolated on logarithms."""
    found = []
    gaps = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    for low, high, before, after in zip(rates, rates[1:], gaps, gaps[1:], strict=False):
        if before * after < 0:
            share = before / (before - after)
            found.append(math.exp(math.log(low) + share * (math.log(high) - math.log(low))))
    return found


def _interval(ratios: Sequence[float], error: float, least: float = 0.0) -> Interval | None:
    """Of their geometric mean, by Student's t over their logarithms, which scatter by `least` or more; None with fewer
    than FEWEST_ROUNDS: of two the interval may be a million times as wide as the mean, which tells nobody anything."""
    logs = interval_of_mean(np.log(ratios), error, least)
    return None if logs is None else (math.exp(logs[0]), math.exp(logs[1]))


def _missing(ratio: float, interval: Interval, blocks: int, error: float) -> int | None:
    """How many more blocks would make it certain that one is ahead, or that both are level (`comparison.certainty`)."""
    low, high = map(math.log, interval)
    reach = max(math.log(ratio), math.log(1 + NEAR) - math.log(ratio))
    return missing_values((low, high), blocks, reach, error)


def around(values: Sequence[float]) -> Interval | None:
    """95 % confidence interval of the geometric mean of one member's rounds: Student's t over their logarithms. None
    with fewer than FEWEST_ROUNDS."""
    return _interval(values, ERROR)


def geometric(values: Sequence[float]) -> float:
    """Their geometric mean."""
    return math.exp(float(np.mean(np.log(values))))
