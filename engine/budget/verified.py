"""A budget that holds: of the frontier's choices the fastest whose peak, looked at as a whole step, is within it.

`frontier.py` orders choices by a model of blocks, which leaves out what steps hold beside them. So a choice is
looked at before it is taken: `look` answers what a step under it holds at the most. The fastest choice is looked at
first; where that is too large, those that may need the least, of which the one that does is the other end; between
these two, by halves of the peaks that the frontier has:

    m       the choice of the frontier whose peak is nearest to the middle of those that are left
    m is a new end, where its peak is between those of the two ends, and it is not slower than the one that fits:
            the one that fits, where its peak is within the budget, else the one that does not
    else    the half that could not have better ones is left out

Where it is not within both ends, m is passed over whatever the budget is. So two budgets see the same choices up to
the one whose peak lies between them; from there on, all that the smaller one may take has a lower peak, all that the
larger one may take has that peak or more. Hence a smaller budget never has a higher peak, nor a shorter time, whatever
`look` answers.

Cost: 1 look where the fastest choice fits, else 1 + PARTS + the others + the last + MOST_LOOKS at the most. It loses up
to 1 part in 2 ** MOST_LOOKS of what lies between the two ends, and all that the frontier's order is wrong about.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from engine.budget.blocks import Chosen
from engine.budget.frontier import Assignment, Frontier

MOST_LOOKS: Final = 6
"""Between the two ends."""
PARTS: Final = 4
"""Of the frontier: the least choice of each may need the least."""

Choice: TypeAlias = tuple[Chosen, ...]
Look: TypeAlias = Callable[[Choice], int | None]
"""Bytes at a step's highest moment under a choice; None where it cannot be had."""


class ImpossibleError(Exception):
    """Nothing that was looked at is within a budget."""

    def __init__(self, least_bytes: int) -> None:
        super().__init__(f"no choice that was found holds less than {least_bytes:,} bytes")
        self.least_bytes = least_bytes


class Verified(NamedTuple):
    """A choice whose peak has been looked at."""

    chosen: Choice
    peak_bytes: int
    time_ns: int
    """As the frontier has it."""


def within(
    budget_bytes: int,
    frontier: Frontier,
    look: Look,
    others: Sequence[Assignment] = (),
    last: Sequence[Assignment] = (),
) -> tuple[Verified, Verified]:
    """The choice for a budget, and the fastest one. `others`: choices beside the frontier's own that may need the
    least. `last`: some that are taken where nothing else fits, or where they are better in both than what holds the
    least of all others. Raises ImpossibleError where none that is looked at is within the budget."""
    points = frontier.points
    known: dict[Choice, int | None] = {}

    def looked(assignment: Assignment) -> Verified | None:
        chosen = assignment.chosen
        if chosen not in known:
            known[chosen] = look(chosen)
        peak = known[chosen]
        return None if peak is None else Verified(chosen, peak, assignment.prediction.time_ns)

    over = looked(frontier.choose(points[-1][0]))
    assert over is not None, "to keep everything is always possible"
    fastest = over
    if over.peak_bytes <= budget_bytes:
        return over, fastest
    ends = [over, *map(looked, thrifty(frontier, others))]
    fits = min((end for end in ends if end is not None), key=lambda end: (end.peak_bytes, end.time_ns))
    resorts = [found for each in last if (found := looked(each)) is not None]
    resorts.sort(key=lambda end: (end.time_ns, end.peak_bytes))
    for end in resorts:
        if end.peak_bytes <= fits.peak_bytes and end.time_ns <= fits.time_ns:
            fits = end
    if fits.peak_bytes > budget_bytes:
        for end in resorts:
            if end.peak_bytes <= budget_bytes:
                return end, fastest
        raise ImpossibleError(min(end.peak_bytes for end in (fits, *resorts)))
    # What is slower than the one that fits is no better.
    low = max((at for at, (_, time_ns) in enumerate(points) if time_ns >= fits.time_ns), default=0)
    high = len(points) - 1
    for _ in range(MOST_LOOKS):
        if high - low < 2:
            break
        middle = bisect_left(points, ((points[low][0] + points[high][0]) // 2, 0), low + 1, high - 1)
        found = looked(frontier.choose(points[middle][0]))
        if found is None or found.peak_bytes >= over.peak_bytes:
            high = middle
        elif found.peak_bytes < fits.peak_bytes or found.time_ns > fits.time_ns:
            low = middle
        elif found.peak_bytes <= budget_bytes:
            fits, low = found, middle
        else:
            over, high = found, middle
    return fits, fastest


def thrifty(frontier: Frontier, others: Sequence[Assignment] = ()) -> list[Assignment]:
    """The choices that may need the least: of the frontier, and the others."""
    points = frontier.points
    at = sorted({_at(points, part) for part in range(PARTS)})
    return [*(frontier.choose(points[each][0]) for each in at), *others]


def _at(points: Sequence[tuple[int, int]], part: int) -> int:
    """The first point of a part of all peaks."""
    least, most = points[0][0], points[-1][0]
    return bisect_left(points, (least + (most - least) * part // PARTS, 0))
