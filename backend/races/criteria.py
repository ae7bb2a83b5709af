"""Which plan is best, by each of four criteria: the figures of a race's rounds, compared within each round. Pure.

The criteria are those of papers 001, "Distributed neural network training: which approach is best?": the fastest
training, the best score that is attained at all, the best one for a given time, and the best one for a given number of
samples. The paper's time goes on for ever; a race's does not, so that `attained` is the best score within the steps
that were trained, and whoever still rose there is named.

A round is a block: everybody ran once, from the same seed where rounds have seeds of their own. Two plans differ by the
mean over blocks of their difference within the block, its interval is Student's t over blocks, and the error of 5 % is
divided among all pairs (Bonferroni), as in `ranking.py`. Speed is compared by logarithms. A difference counts where
its interval leaves out zero and it is not smaller than `SMALLEST`. Else none is seen where its interval rules out one
of more than `MATTERS`; where it does not, a difference that matters may hide in it, and there are too few blocks to
tell. Two whose figures are equal in every block are level. Of races whose plans are equal, at most one in twenty shows
a difference by any one of the four criteria, taken by itself.

Who failed in a round, or whose score was no finite number, is compared with nobody: its better seeds would count for
it, and the others would have to leave out those that it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from backend.races.ranking import compared
from backend.races.spec import FEWEST_ROUNDS
from engine.telemetry.comparison import NEAR
from engine.telemetry.estimates import ERROR, Interval
from engine.telemetry.means import interval_of_mean, missing_values

Name = Literal["speed", "attained", "in_time", "in_samples"]
Score = Literal["accuracy", "loss"]
NAMES: tuple[Name, ...] = ("speed", "attained", "in_time", "in_samples")
SMALLEST: Mapping[str, float] = {"speed": math.log(1.01), "accuracy": 0.001, "loss": 0.01}
"""Smaller differences do not count, however certain they are: one percent of speed, a tenth of a point of accuracy, a
hundredth of a nat of loss (one percent of perplexity)."""
MATTERS: Mapping[str, float] = {"speed": math.log(1 + NEAR), "accuracy": 0.01, "loss": 0.05}
"""Larger differences matter: five percent of speed, one point of accuracy, a twentieth of a nat of loss (five percent
of perplexity). Who says that no difference is seen has ruled one of these out."""
SAME = 1e-9
"""Figures that are closer are one, computed in two ways."""
STILL_RISING = 0.25
"""Share of the last evaluations over which a run still rose if its score moved there by more than `SMALLEST`."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """What one run has shown: its evaluations in their order, and its speed."""

    samples: tuple[float, ...]
    """Trained on until each evaluation."""
    seconds: tuple[float, ...]
    """Since its first step."""
    score: tuple[float, ...]
    """Not finite where the run had diverged."""
    samples_per_s: float | None

    @property
    def diverged(self) -> bool:
        """Whether a score was no finite number."""
        return not all(map(math.isfinite, self.score))


Why = Literal["out", "diverged", "late", "few", "unmeasured"]
"""Why a member is not compared: it failed in a round or cannot run; a score of it was no finite number; it was first
evaluated after the others had ended; it shares too few blocks with the others; it has no figure."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One member by one criterion."""

    member: int
    value: float
    """Mean over the blocks: samples per second (geometric), a share, or nats."""
    interval: Interval | None
    """Its 95 % confidence interval, by itself; None with fewer than FEWEST_ROUNDS blocks."""
    behind: float | None
    """By how much the first one is better: a ratio of speeds, a difference of scores, never negative. None: it is the
    first one, or compared with nobody."""
    behind_interval: Interval | None
    """Of `behind`, wide enough for all pairs; None with fewer than FEWEST_ROUNDS blocks."""
    worse: bool
    """Whether it is behind by more than chance, and by enough."""
    unsure: bool = False
    """Whether there are too few blocks to tell: it is not `worse`, and may be behind by more than MATTERS."""
    missing: int | None = None
    """If `unsure`: with so many more blocks that differ as these do, it would be `worse`, or known not to be behind by
    more than MATTERS. None: with more than `MOST_MISSING`."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """All members by one criterion, the best first; those that are not compared have no place."""

    name: Name
    at: float | None
    """The time in s, or the number of samples, at which scores are compared; None for the other two."""
    places: tuple[Placed, ...]
    blocks: int
    """On how many blocks it rests."""
    absent: Mapping[int, Why]
    """Who is not compared, and why."""

    @property
    def enough(self) -> bool:
        """Whether there are blocks enough for a verdict, of two members or more."""
        return len(self.places) > 1 and self.blocks >= FEWEST_ROUNDS

    @property
    def best(self) -> tuple[int, ...]:
        """The first one, and whoever is not behind it for certain."""
        return tuple(place.member for place in self.places if not place.worse)

    @property
    def level(self) -> tuple[Placed, ...]:
        """Of whom it is known that they are not behind the first one by a difference that matters."""
        return tuple(place for place in self.places[1:] if not place.worse and not place.unsure)

    @property
    def unsure(self) -> tuple[Placed, ...]:
        """Who may be behind by a difference that matters, or not at all."""
        return tuple(place for place in self.places if place.unsure)

    @property
    def worse(self) -> tuple[Placed, ...]:
        """Who is behind for certain."""
        return tuple(place for place in self.places if place.worse)


Runs = Mapping[int, Mapping[Any, Course]]
"""By member and block."""


def judge(runs: Runs, score: Score, out: Collection[int] = (), *, reseed: bool = True) -> tuple[Judged, ...]:
    """All four criteria, in the order of NAMES. Runs without any evaluation have a speed only. Who is `out` is compared
    with nobody, unless all are. Without `reseed` all blocks have one seed: they repeat one score, and are one block for
    all that is said of scores."""
    scored = {member: {block: run for block, run in own.items() if run.score} for member, own in runs.items()}
    diverged = {member for member, own in scored.items() if any(run.diverged for run in own.values())}
    if not reseed:
        scored = _first(scored)
    scored = {member: {} if member in diverged else own for member, own in scored.items()}
    # Who is not compared says nothing of where the others are.
    group, over = _group({member: own for member, own in scored.items() if own}, out)
    every = [scored[member][block] for member in group for block in over]
    time = min((run.seconds[-1] for run in every), default=None)
    samples = min((run.samples[-1] for run in every), default=None)
    speed = {
        member: {block: math.log(run.samples_per_s) for block, run in own.items() if run.samples_per_s}
        for member, own in runs.items()
    }
    best, sign = (max, 1.0) if score == "accuracy" else (min, -1.0)
    attained = {m: {b: best(run.score) for b, run in own.items()} for m, own in scored.items()}
    in_time, in_samples = _at(scored, time, "seconds"), _at(scored, samples, "samples")
    grain = _grain(run for own in scored.values() for run in own.values()) if score == "accuracy" else 0.0
    scores = _Rules(smallest=SMALLEST[score], matters=MATTERS[score], sign=sign, grain=grain)

    def judged(name: Name, values: Mapping[int, Mapping[Any, float]], at: float | None = None) -> Judged:
        if name == "speed":
            return _judged(name, values, out, _Rules(smallest=SMALLEST["speed"], matters=MATTERS["speed"]))
        found = _judged(name, values, out, scores, at=at)
        late = {m for m, why in found.absent.items() if why != "out" and len(values[m]) < len(scored[m])}
        told: dict[int, Why] = {
            member: "diverged" if member in diverged else "late" if member in late else why
            for member, why in found.absent.items()
        }
        return replace(found, absent=told)

    return (
        judged("speed", speed),
        judged("attained", attained),
        judged("in_time", in_time, time),
        judged("in_samples", in_samples, samples),
    )


def _grain(runs: Iterable[Course]) -> float:
    """By how much two accuracies differ at least: a sample of the test data, or, where few accuracies are known, a
    multiple of that. 0 where they are all equal."""
    gaps = np.diff(np.sort([value for run in runs for value in run.score]))
    return float(min(gaps[gaps > SAME], default=0.0))


def _group(known: Mapping[int, Mapping[Any, object]], out: Collection[int]) -> tuple[list[int], list[Any]]:
    """Who is compared, and over which blocks. Each member of `known` has a block."""
    staying = {member: own for member, own in known.items() if member not in out} or known
    if not staying:
        return [], []
    group = compared(staying, ())
    return group, [block for block in staying[group[0]] if all(block in staying[one] for one in group)]


def _first(runs: Runs) -> dict[int, dict[Any, Course]]:
    """One block of each member, the same one where there is one that all have."""
    every = [set(own) for own in runs.values() if own]
    common = set.intersection(*every) if every else set()
    return {
        member: {block: own[block] for block in sorted(common.intersection(own) or own)[:1]}
        for member, own in runs.items()
    }


def still_rising(run: Course, score: Score) -> bool:
    """Whether the best score within the last quarter of the evaluations is better than the best before it by more than
    SMALLEST: with more steps it would probably attain more."""
    count = max(1, round(STILL_RISING * len(run.score)))
    if len(run.score) <= count or run.diverged:
        return False
    sign = 1 if score == "accuracy" else -1
    signed = [sign * value for value in run.score]
    return max(signed[-count:]) - max(signed[:-count]) > SMALLEST[score]


def _at(runs: Runs, at: float | None, axis: Literal["seconds", "samples"]) -> dict[int, dict[Any, float]]:
    """Scores at one place of an axis, interpolated between evaluations; a run that had not been evaluated by then has
    none."""
    found: dict[int, dict[Any, float]] = {}
    for member, own in runs.items():
        found[member] = {}
        for block, run in own.items():
            along = getattr(run, axis)
            if at is not None and along[0] <= at:
                found[member][block] = float(np.interp(at, along, run.score))
    return found


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """How the figures of a criterion are compared."""

    smallest: float
    matters: float
    sign: float = 1.0
    """Times this the higher figure is the better one."""
    grain: float = 0.0
    """Figures are multiples of it."""


def _judged(
    name: Name,
    values: Mapping[int, Mapping[Any, float]],
    out: Collection[int],
    rules: _Rules,
    *,
    at: float | None = None,
) -> Judged:
    """`values`: scores, or logarithms of speeds."""
    known = {member: own for member, own in values.items() if own}
    group, over = _group(known, out)
    sign, rounding = rules.sign, rules.grain / math.sqrt(12)  # the standard deviation of what rounding leaves
    mean = {member: float(np.mean([known[member][block] for block in over])) for member in group}
    order = sorted(group, key=lambda member: -sign * mean[member])
    pairs = max(1, math.comb(len(order), 2))
    places = []
    for number, member in enumerate(order):
        gaps = [sign * (known[order[0]][block] - known[member][block]) for block in over]
        # Three equal differences of rounded figures are not equal for certain: two roundings lie in each.
        interval = interval_of_mean(gaps, ERROR / pairs, math.sqrt(2) * rounding) if number else None
        behind = max(float(np.mean(gaps)), 0.0) if number else None  # rounding may have a tie below zero
        own = interval_of_mean([known[member][block] for block in over], least=rounding)
        worse = interval is not None and behind is not None and interval[0] > 0 and behind >= rules.smallest
        # Of equal figures further ones would be equal, too; their interval is as wide as rounding makes it.
        differs = any(abs(gap) > SAME for gap in gaps)
        unsure = interval is not None and not worse and interval[1] > rules.matters and differs
        missing = None
        if unsure and interval is not None:  # then it is certain, or one that matters is ruled out
            reach = max(behind or 0.0, rules.matters - (behind or 0.0))
            missing = missing_values(interval, len(over), reach, ERROR / pairs)
        places.append(
            Placed(
                member=member,
                value=_shown(name, mean[member]),
                interval=own and (_shown(name, own[0]), _shown(name, own[1])),
                behind=None if behind is None else _shown(name, behind),
                behind_interval=interval and (_shown(name, interval[0]), _shown(name, interval[1])),
                worse=worse,
                unsure=unsure,
                missing=missing,
            )
        )
    absent: dict[int, Why] = {
        member: "out" if member in out else "few" if own else "unmeasured"
        for member, own in values.items()
        if member not in mean
    }
    return Judged(name=name, at=at, places=tuple(places), blocks=len(over), absent=absent)


def _shown(name: Name, value: float) -> float:
    return math.exp(value) if name == "speed" else value
