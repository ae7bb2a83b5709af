"""The largest batch is sure of both sides, and found in few looks."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine.budget.largest import FIRST, largest

MOST = 2**31


def looks(held: Callable[[int], int], room: int, most: int = MOST) -> tuple[int, list[int]]:
    """What is found, and where was looked."""
    asked: list[int] = []

    def counted(samples: int) -> int:
        asked.append(samples)
        return held(samples)

    found = largest(counted, room, most=most)
    assert len(set(asked)) == len(asked), "no look is taken twice"
    assert all(1 <= at <= most for at in asked)
    if found:
        assert held(found) <= room
        assert found in asked
    if found < most:
        assert held(found + 1) > room
        assert found + 1 in asked
    return found, asked


def test_a_line_takes_five_looks_at_the_most() -> None:
    rnd = random.Random(1)
    for _ in range(1000):
        fixed, each, room = rnd.randrange(10**9), rnd.randrange(1, 10**7), rnd.randrange(1, 2 * 10**10)
        found, asked = looks(lambda n, a=fixed, b=each: a + b * n, room)  # type: ignore[misc]
        assert found == min(max((room - fixed) // each, 0), MOST)
        assert len(asked) <= 5


def test_where_kernels_change_it_is_found_too() -> None:
    """Steps and other slopes, as where a kernel or a mechanism chooses by sizes."""
    rnd = random.Random(2)
    for _ in range(1000):
        each, jump, at = rnd.randrange(1, 1000), rnd.randrange(10**5), rnd.randrange(1, 3000)
        more = rnd.randrange(1000)
        room = rnd.randrange(1, 10**6)
        _, asked = looks(
            lambda n, b=each, j=jump, k=at, m=more: b * n + (j + m * (n - k) if n > k else 0),  # type: ignore[misc]
            room,
        )
        assert len(asked) <= 25


@pytest.mark.parametrize("power", [0.5, 2.0, 3.0])
def test_curves_are_followed(power: float) -> None:
    for room in (1, 10, 10**3, 10**6, 10**8):
        _, asked = looks(lambda n: int(7 * n**power), room, most=10**7)
        assert len(asked) <= 60


@pytest.mark.parametrize("most", [1, 2, FIRST - 1, FIRST, FIRST + 1, 100])
def test_no_more_than_can_be_counted(most: int) -> None:
    for room in range(2 * FIRST + 4):
        assert looks(lambda n: n, room, most)[0] == min(room, most)
    assert looks(lambda _: 5, 5, most)[0] == most
    assert looks(lambda _: 5, 4, most)[0] == 0
