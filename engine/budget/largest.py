"""The largest batch that fits: what a step holds as a function of its samples, looked at where it matters.

The peak is nearly a line in the number of samples, but for kernels and mechanisms that choose by sizes. So each look is
where the line through the last two meets the room, and the answer is sure of both its sides: it fits, and one sample
more does not. Where the line leads badly, steps double, and halve what is left between the two sides.

Cost: four looks on a line, and two for each doubling where it is none. It loses where the peak falls as samples grow:
another batch beyond one that does not fit is not found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

FIRST: Final = 16
"""Samples of the first look: one alone may take other kernels."""


def largest(held: Callable[[int], int], room: int, *, most: int, first: int = FIRST) -> int:
    """The samples, 0 where one does not fit, `most` where all of them do. `held(n)`: bytes that n samples take.
    `first`: where is looked first."""
    look = cache(held)
    fits, over = 0, most + 1
    stride, slow = 1, 0
    at = min(first, most)
    known: list[int] = []
    while over - fits > 1:
        between = over - fits
        known.append(at)
        if look(at) <= room:
            stride = 2 * stride if at - fits == stride else 1
            fits = at
        else:
            over = at
        guess = _crossing(look, room, known, fits, over)
        if over > most:
            at = min(max(guess, fits + stride), most)
            continue
        slow = slow + 1 if 2 * (over - fits) > between else 0
        at = (fits + over) // 2 if slow > 1 else min(max(guess, fits + 1), over - 1)
    return fits


def _crossing(look: Callable[[int], int], room: int, known: list[int], fits: int, over: int) -> int:
    """The last number of samples within the room, on the line through the two nearest to it that were looked at."""
    below = sorted(at for at in known if at <= fits)
    above = sorted(at for at in known if at >= over)
    near = (below[-2:] if not above else [*below[-1:], *above[:1]]) if below else above[:2]
    if len(near) < 2:  # as if samples were all that takes memory: too few where they are not
        return max(near[0] * room // max(look(near[0]), 1), 1)
    one, two = near
    rise = look(two) - look(one)
    return one + (room - look(one)) * (two - one) // rise if rise > 0 else two
