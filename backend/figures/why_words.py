"""A wait's explanation in words."""

from __future__ import annotations

from collections import Counter, defaultdict

from backend.figures.base import format_ms
from backend.figures.facts import JobFacts
from backend.figures.why import Cause, Stretch, Why

LEAST = 0.02
"""A cause that takes a smaller share of the wait is left out of the sentence, and of the layers that were ahead those
that took a smaller share of the queue than a quarter."""
NAMED_AHEAD = 0.25


def sentence(why: Why, job: JobFacts) -> str:
    """`waited 41 ms: 30 ms queued behind fc7, 11 ms on the wire`, the longest cause first."""
    whole = int(why.wait["end"] - why.wait["start"])
    if why.not_kept is not None:
        return (
            f"waited {format_ms(whole)} for what step {why.not_kept} sent. Of that step only totals were kept, so that"
            " nothing says why: choose a wait in a step whose step before it was recorded, too"
        )
    by_cause: dict[Cause, list[Stretch]] = defaultdict(list)
    for stretch in why.stretches:
        by_cause[stretch.cause].append(stretch)
    took = {cause: sum(stretch.ns for stretch in own) for cause, own in by_cause.items()}
    said = [
        f"{format_ms(ns)} {cause_words(by_cause[cause], job)}"
        for cause, ns in sorted(took.items(), key=lambda entry: -entry[1])
        if ns >= LEAST * whole
    ]
    return f"waited {format_ms(whole)}: {', '.join(said)}"


def cause_words(stretches: list[Stretch], job: JobFacts) -> str:
    """What stretches of one cause were."""
    cause = stretches[0].cause
    who = _names([job.party(stretch.party) for stretch in _longest_first(stretches)])
    if cause == "queue":
        return _queued(stretches, job)
    return {
        "wire": "on the wire",
        "held": f"held at {who} before it was sent",
        "compute": f"until {who} had computed it",
        "reduce": f"in the sum and update at {who}",
        "collective": "in the collective",
        "apply": "to take it in",
        "unknown": "of which nothing was recorded",
    }[cause]


def _queued(stretches: list[Stretch], job: JobFacts) -> str:
    """Behind whom."""
    ahead: Counter[int] = Counter()
    for stretch in stretches:
        ahead.update(dict(stretch.ahead))
    total = max(sum(ahead.values()), 1)
    own = stretches[0].layer
    named = [layer for layer, ns in ahead.most_common(2) if ns >= NAMED_AHEAD * total]
    named = named or [layer for layer, _ in ahead.most_common(1)]
    said = {layer: job.message_named(layer) for layer in named}
    names = [f"other slices of {name}" if layer == own else name for layer, name in said.items()]
    return f"queued behind {_names(names) or 'control messages'}"


def _longest_first(stretches: list[Stretch]) -> list[Stretch]:
    return sorted(stretches, key=lambda stretch: -stretch.ns)


def _names(names: list[str]) -> str:
    return " and ".join(dict.fromkeys(name for name in names if name))
