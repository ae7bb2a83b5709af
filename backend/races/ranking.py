"""Who is fastest, and how sure that is: the figures of a race's rounds, compared within each round.

A round is a block: everybody ran once, close together in time. The ratio of two members is the mean over rounds of the
logarithm of their ratio within the round, its interval Student's t over rounds (Montgomery, Design and Analysis of
Experiments, section 4.1: the randomized complete block design, two treatments at a time). The fastest is not known
before, so that any two may come to be compared: the error of 5 % is divided among all pairs (Bonferroni). Of races
whose members are equal, at most one in twenty shows a significant difference.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from backend.races.spec import FEWEST_ROUNDS
from engine.telemetry.comparison import SMALLEST
from engine.telemetry.definitions import Interval

ERROR = 0.05
"""Probability of an interval that does not cover the true value, over all comparisons of a ranking."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One member's place."""

    member: int
    rank: int
    """1 for the fastest. Those that cannot be told apart from the fastest have its rank, too."""
    iteration_ns: float
    """Geometric mean over rounds of the median iteration time."""
    times_fastest: float
    """Its iteration time over the fastest one's, over the rounds that both ran."""
    interval: Interval | None
    """Of `times_fastest`; None with fewer than two common rounds, and of the fastest itself."""
    significant: bool
    """Whether it is slower than the fastest by more than chance, and by more than SMALLEST."""
    rounds: int
    """Of which this rests on."""


def rank(iterations: Mapping[int, Mapping[int, float]], out: Collection[int] = ()) -> list[Standing]:
    """The standings of members by their median iteration times in ns: member -> round -> time. Fastest first, but who
    is `out` with fewer than FEWEST_ROUNDS comes last: held against it, nobody would ever have enough rounds."""
    known = {member: times for member, times in iterations.items() if times}
    if not known:
        return []
    mean = {member: geometric(list(times.values())) for member, times in known.items()}
    order = sorted(
        known, key=lambda member: (member in out and len(known[member]) < FEWEST_ROUNDS, mean[member])
    )
    first, pairs = order[0], max(1, math.comb(len(order), 2))
    standings: list[Standing] = []
    for place, member in enumerate(order, start=1):
        ratio, interval, count = _ratio(known[member], known[first], ERROR / pairs)
        slower = (
            member != first
            and count >= FEWEST_ROUNDS
            and interval is not None
            and interval[0] > 1
            and ratio >= 1 + SMALLEST
        )
        standings.append(
            Standing(
                member=member,
                rank=place if slower else 1,
                iteration_ns=mean[member],
                times_fastest=ratio,
                interval=None if member == first else interval,
                significant=slower,
                rounds=len(known[member]) if member == first else count,
            )
        )
    return standings


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


def _ratio(
    ours: Mapping[int, float], theirs: Mapping[int, float], error: float
) -> tuple[float, Interval | None, int]:
    """Over the rounds that both ran; over all that each ran where they share none."""
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return geometric(list(ours.values())) / geometric(list(theirs.values())), None, 0
    logs = np.log([ours[number] / theirs[number] for number in common])
    middle, count = float(logs.mean()), len(common)
    if count < 2:
        return math.exp(middle), None, count
    reach = float(stdtrit(count - 1, 1 - error / 2)) * float(logs.std(ddof=1)) / math.sqrt(count)
    return math.exp(middle), (math.exp(middle - reach), math.exp(middle + reach)), count


def around(values: Sequence[float]) -> Interval | None:
    """95 % confidence interval of the geometric mean of one member's rounds: Student's t over their logarithms. None
    with fewer than FEWEST_ROUNDS."""
    count = len(values)
    if count < FEWEST_ROUNDS:
        return None
    logs = np.log(values)
    reach = float(stdtrit(count - 1, 1 - ERROR / 2)) * float(logs.std(ddof=1)) / math.sqrt(count)
    return math.exp(float(logs.mean()) - reach), math.exp(float(logs.mean()) + reach)


def geometric(values: Sequence[float]) -> float:
    """Their geometric mean."""
    return math.exp(float(np.mean(np.log(values))))
