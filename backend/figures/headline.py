"""The headline of jobs side by side: who finishes a step sooner, by how much, and which wait it was that went away.

It is of one run of each, and says so: the interval of a ratio knows how a run's steps differ, and nothing of how runs
do. Whether another run would come out the same is what the rounds of a race are for (`services/verdict.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from backend.figures.base import format_ms
from backend.figures.facts import bucket
from backend.figures.shared_units import SharedUnits
from backend.figures.speed import Speed
from backend.rounding import SPEED_UP
from engine.plan.units_of_measure import format_bytes
from engine.telemetry.comparison import (
    Judgement,
    RunConditions,
    SpeedUp,
    may_be_chance,
    outcome,
    scaling_words,
)

CAUSE_SHARE = 0.25
"""A wait explains a difference when it shrank by at least this share of it."""
GONE = 0.2
"""A wait of which less than this share remains `no longer` blocks."""
FEWER = 1.5
"""Where the link limits a job, one that sends so many times fewer bytes is faster because of that, whatever waited."""

ONE_RUN = "In one run of each, "


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One job of a race."""

    run: RunConditions
    """What the judgement knows of it, with the name that it has in this race."""
    speed: Speed
    exposed_ns: dict[int, float]
    """Mean exposed wait of a worker and step, by the layer that it had reached."""
    blocker: Callable[[Collection[int]], int | None]
    """Which layer was on the wire while this job waited for layers (`blame.blocker`)."""
    units: Callable[[], SharedUnits] = SharedUnits
    """Which layers come as one."""
    sent_bytes: float | None = None
    """What all its parties send in a step. None: not known."""
    link_limits: Callable[[], bool] = lambda: False
    """Whether the port of a link limits it (`engine.telemetry.limits`)."""

    @property
    def name(self) -> str:
        return self.run.name


def headline(contenders: Sequence[Contender], layer: Callable[[int], str]) -> str:
    """What `comparison.outcome` finds, in words; `layer` names a layer."""
    found = outcome([contender.run for contender in contenders])
    if found.refused:
        return f"Not comparable. {'; '.join(found.refused)}"
    ahead = [(place, gain) for place, gain in found.others if gain.verdict in ("faster", "chance")]
    level = [contenders[place] for place, gain in found.others if gain.verdict == "level"]
    sure = [place for place, gain in ahead if gain.verdict == "faster"]
    if found.leader is None or not (ahead or level):
        return _too_little(found, contenders)
    first = contenders[found.leader]
    if sure:
        text = f"{ONE_RUN}{first.name} {_gains(first, contenders, ahead, layer)}"
        text += f", level with {' and '.join(one.name for one in level)}" if level else ""
        why = cause(first, contenders[sure[0]], layer) if len(ahead) == 1 else None
        text += f": {why}" if why else ""
    else:
        times = [_with_interval(first)]
        times += [
            _with_interval(contenders[place]) + (_chance(first, gain) if gain.verdict == "chance" else "")
            for place, gain in found.others
            if gain.verdict in ("chance", "level")
        ]
        known = "Too few steps to tell" if ahead else "No significant difference"
        text = f"{known}: a step takes {', '.join(times)}"
    caveats = dict.fromkeys(
        caveat
        for _, gain in found.others
        if gain.verdict in ("faster", "chance", "level")
        for caveat in gain.uneven
    )
    refused = [
        f"{contenders[place].name} does not compare with {first.name} ({'; '.join(gain.refused)})"
        for place, gain in found.others
        if gain.verdict == "refused"
    ]
    missing = [f"Missing: {', '.join(found.waiting)}"] if found.waiting else []
    mind = [f"Mind: {'; '.join(caveats)}"] if caveats else []
    return ". ".join([text, *refused, *missing, *mind])


def _gains(
    first: Contender,
    contenders: Sequence[Contender],
    ahead: Sequence[tuple[int, SpeedUp]],
    layer: Callable[[int], str],
) -> str:
    """`finishes a step 1.30x sooner than parameter-server`, for each that is slower, and of several why, or that it may
    be chance; at equal batches per worker it is samples that are compared, because a step is not the same work."""
    words: list[str] = []
    for place, gain in ahead:
        other, times = contenders[place], SPEED_UP.format(gain.value)
        if gain.scaling == "weak":
            said = f"makes {times} the samples/s of {other.name}"
        else:
            said = f"{'' if words else 'finishes a step '}{times} sooner than {other.name}"
        scaling = scaling_words(first.run, other.run)
        why = cause(first, other, layer) if len(ahead) > 1 and gain.verdict == "faster" else None
        chance = may_be_chance(gain.interval) if gain.verdict == "chance" and gain.interval else None
        more = "; ".join(filter(None, (chance, scaling, why)))
        words.append(f"{said} ({more})" if more else said)
    return ", ".join(words)


def _too_little(found: Judgement, contenders: Sequence[Contender]) -> str:
    """Nobody can be sure: what is missing, and what has been measured so far."""
    text = "Nobody can tell for sure" if found.final else "Too early to tell"
    text += f": {', '.join(found.waiting)}"
    unsure = [(place, gain) for place, gain in found.others if gain.verdict == "unsure"]
    if found.leader is None or not unsure:
        return text
    place, gain = unsure[-1]
    leader = contenders[found.leader].name
    return f"{text}. So far {leader} makes {SPEED_UP.format(gain.value)} the samples/s of {contenders[place].name}"


def cause(fast: Contender, slow: Contender, layer: Callable[[int], str]) -> str | None:
    """Fewer bytes, where the link limits the slower job; else the layer whose wait shrank most, and what was on the
    wire before it in the slower job; or computation, where that is what differs; None where the data name no cause."""
    gain = (slow.speed.iteration_ns or 0.0) - (fast.speed.iteration_ns or 0.0)
    if gain <= 0:  # more samples in a longer step: nothing of it went away
        return None
    if fast.sent_bytes and (slow.sent_bytes or 0.0) >= FEWER * fast.sent_bytes and slow.link_limits():
        ours, theirs = (format_bytes(round(one.sent_bytes or 0)) for one in (fast, slow))
        return f"it sends {ours} per step instead of {theirs}"
    before = _waits(slow)
    if before:
        after = {one: _still(fast, one) for one in before}
        most = max(before, key=lambda one: before[one] - after[one])
        shrunk = before[most] - after[most]
        less = sum(slow.exposed_ns.values()) - sum(fast.exposed_ns.values())
        if less < shrunk / 2:  # it waits for another layer instead
            return (
                f"a worker waits {format_ms(less)} less per step on average"
                if less >= CAUSE_SHARE * gain
                else None
            )
        if shrunk >= CAUSE_SHARE * gain:
            ahead = slow.blocker(most)
            behind = None if ahead is None else bucket(layer, slow.units().sent_with(ahead))
            gone = after[most] < GONE * before[most]
            return _went_away(bucket(layer, most), behind, None if gone else shrunk, joint=len(most) > 1)
    compute = (slow.speed.compute_ns or 0.0) - (fast.speed.compute_ns or 0.0)
    return f"it computes {format_ms(compute)} less" if compute >= 0.5 * gain else None


def _waits(contender: Contender) -> dict[tuple[int, ...], float]:
    """Mean exposed wait of a worker and step, by the layers that it was for: those of a bucket come as one."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for one, ns in contender.exposed_ns.items():
        if one >= 0:
            found[contender.units().waited_for(one)] += ns
    return found


def _still(contender: Contender, layers: Collection[int]) -> float:
    """How long this job may wait for what these layers come in: what belongs to no layer, as PyTorch's own collectives
    do, may be theirs."""
    wanted = {-1} | {other for one in layers for other in contender.units().waited_for(one)}
    return sum(ns for one, ns in contender.exposed_ns.items() if one in wanted)


def _went_away(what: str, behind: str | None, less_ns: float | None, *, joint: bool) -> str:
    """That `what` waits less, by `less_ns`, or no longer (None). Of several layers, `joint`, nobody says that they
    wait."""
    if less_ns is None and behind is not None:
        return f"{behind} no longer blocks {what}"
    if less_ns is None:
        return f"{what} is no longer waited for" if joint else f"{what} no longer waits"
    waits = "is waited for" if joint else "waits"
    return f"{what} {waits} {format_ms(less_ns)} less" + (f" behind {behind}" if behind is not None else "")


def _with_interval(contender: Contender) -> str:
    """`p3 41 ms (40 ms to 43 ms)`: the median and what it may as well be."""
    speed = contender.speed
    low, high = speed.interval_ns or (0.0, 0.0)
    return f"{contender.name} {format_ms(speed.iteration_ns or 0.0)} ({format_ms(low)} to {format_ms(high)})"


def _chance(first: Contender, gain: SpeedUp) -> str:
    """` (p3 is 1.58x as fast, which may be chance: 0.95x to 2.62x)`."""
    if gain.interval is None:
        return ""
    return f" ({first.name} is {SPEED_UP.format(gain.value)} as fast, {may_be_chance(gain.interval)})"
