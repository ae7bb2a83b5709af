"""The race's headline: who finishes a step sooner, by how much, and which wait it was that went away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.figures.base import format_ms
from backend.figures.speed import Speed

SMALLEST = 0.01
"""A smaller difference is none, however certain it is."""
CAUSE_SHARE = 0.25
"""A wait explains a difference when it shrank by at least this share of it."""
GONE = 0.2
"""A wait of which less than this share remains `no longer` blocks."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One job of a race."""

    name: str
    speed: Speed
    exposed_ns: dict[int, float]
    """Mean exposed wait of a worker and step, by layer."""
    blocker: Callable[[int], int | None]
    """Which layer was on the wire while this job waited for a layer (`blame.blocker`)."""


def headline(contenders: Sequence[Contender], refused: Sequence[str], layer: Callable[[int], str]) -> str:
    """One sentence. `refused` are reasons why the jobs may not be compared; `layer` names a layer."""
    if refused:
        return f"Not comparable. {'; '.join(refused)}"
    for contender in contenders:
        if contender.speed.iteration_ns is None or contender.speed.interval_ns is None:
            return f"Too early to tell: {contender.name} has too few steps after the warm-up"
    ranked = sorted(contenders, key=lambda c: c.speed.iteration_ns or 0.0)
    first, rest = ranked[0], ranked[1:]
    sooner = [other for other in rest if is_sooner(first.speed, other.speed)]
    if not sooner:
        return f"No significant difference: a step takes {', '.join(_with_interval(c) for c in ranked)}"
    slowest = sooner[-1]
    ahead = [f"{_percent(first.speed, other.speed)} sooner than {other.name}" for other in sooner]
    result = f"{first.name} finishes a step {_percent(first.speed, slowest.speed)} sooner"
    if len(rest) > 1:
        equal = [other.name for other in rest if other not in sooner]
        result = f"{first.name} finishes a step " + ", ".join(ahead)
        result += f", level with {' and '.join(equal)}" if equal else ""
    why = cause(first, slowest, layer)
    return f"{result}: {why}" if why else result


def is_sooner(fast: Speed, slow: Speed) -> bool:
    """Whether the medians differ by more than their confidence intervals and by more than SMALLEST."""
    if not (fast.iteration_ns and slow.iteration_ns and fast.interval_ns and slow.interval_ns):
        return False
    apart = fast.interval_ns[1] < slow.interval_ns[0]
    return apart and 1 - fast.iteration_ns / slow.iteration_ns >= SMALLEST


def cause(fast: Contender, slow: Contender, layer: Callable[[int], str]) -> str | None:
    """The layer whose wait shrank most, and what was on the wire before it in the slower job; or computation,
    where that is what differs; None where the data name no cause."""
    gain = (slow.speed.iteration_ns or 0.0) - (fast.speed.iteration_ns or 0.0)
    shrunk = {one: ns - fast.exposed_ns.get(one, 0.0) for one, ns in slow.exposed_ns.items() if one >= 0}
    if shrunk:
        most = max(shrunk, key=shrunk.__getitem__)
        if shrunk[most] >= CAUSE_SHARE * gain:
            gone = fast.exposed_ns.get(most, 0.0) < GONE * slow.exposed_ns[most]
            less = format_ms(shrunk[most])
            ahead = slow.blocker(most)
            if ahead is None:
                return f"{layer(most)} no longer waits" if gone else f"{layer(most)} waits {less} less"
            if gone:
                return f"{layer(ahead)} no longer blocks {layer(most)}"
            return f"{layer(most)} waits {less} less behind {layer(ahead)}"
    compute = (slow.speed.compute_ns or 0.0) - (fast.speed.compute_ns or 0.0)
    return f"it computes {format_ms(compute)} less" if compute >= 0.5 * gain else None


def _with_interval(contender: Contender) -> str:
    """`p3 41 ms (40 ms to 43 ms)`: the median and what it may as well be."""
    speed = contender.speed
    low, high = speed.interval_ns or (0.0, 0.0)
    return f"{contender.name} {format_ms(speed.iteration_ns or 0.0)} ({format_ms(low)} to {format_ms(high)})"


def _percent(fast: Speed, slow: Speed) -> str:
    share = 100 * (1 - (fast.iteration_ns or 0.0) / (slow.iteration_ns or 1.0))
    return f"{share:.0f} %" if share >= 2 else f"{share:.1f} %"
