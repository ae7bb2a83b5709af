"""A budget's choice, looked at before it is taken: within the budget, and in order, whatever looking answers."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from engine.budget.blocks import Action, BlockCosts, Chosen
from engine.budget.frontier import Assignment, Frontier
from engine.budget.prediction import predict
from engine.budget.verified import MOST_LOOKS, PARTS, Choice, ImpossibleError, Verified, within

RATE = 10**9


def blocks(draw: random.Random, count: int) -> list[BlockCosts]:
    return [
        BlockCosts(
            name=f"b{at}",
            saved_bytes=draw.randrange(1, 1000),
            input_bytes=draw.randrange(100),
            forward_ns=draw.randrange(1, 1000),
            backward_ns=draw.randrange(1000),
            working_bytes=draw.randrange(300),
            joins=draw.random() < 0.5,
        )
        for at in range(count)
    ]


class Looks:
    """Whole steps, as far as this test cares: what the frontier says, wrong by up to so much, or any number."""

    def __init__(self, costs: list[BlockCosts], draw: random.Random, wrong: float) -> None:
        self._costs, self._draw, self._wrong = costs, draw, wrong
        self._known: dict[Choice, int | None] = {}
        self.asked: list[Choice] = []

    def __call__(self, chosen: Choice) -> int | None:
        self.asked.append(chosen)
        if chosen not in self._known:
            peak = predict(self._costs, chosen, swap_bytes_per_second=RATE).peak_bytes
            off = self._draw.uniform(-self._wrong, self._wrong)
            refused = (
                self._wrong and self._draw.random() < 0.1 and any(c.action is not Action.KEEP for c in chosen)
            )
            self._known[chosen] = None if refused else round(peak * (1 + off))
        return self._known[chosen]


def ends(costs: list[BlockCosts]) -> list[Assignment]:
    every = [(Chosen(action),) * len(costs) for action in (Action.SWAP, Action.RECOMPUTE)]
    return [Assignment(each, predict(costs, each, swap_bytes_per_second=RATE)) for each in every]


def late(costs: list[BlockCosts], frontier: Frontier) -> list[Assignment]:
    """Slow choices that hold little: nothing is on its way back."""
    swapped = (Chosen(Action.SWAP),) * len(costs)
    every = [
        tuple(replace(each, late=each.action is Action.SWAP) for each in chosen)
        for chosen in (swapped, frontier.choose(frontier.least_bytes).chosen)
    ]
    return [Assignment(each, predict(costs, each, swap_bytes_per_second=RATE)) for each in every]


@pytest.mark.parametrize("wrong", [0, 0.03, 0.5])
def test_a_smaller_budget_never_has_a_higher_peak_nor_a_shorter_time(wrong: float) -> None:
    """200 budgets of each of some models, each within its budget, or refused with a peak that can be had."""
    draw = random.Random(20)
    for count in (1, 2, 5, 24):
        costs = blocks(draw, count)
        frontier = Frontier(costs, swap_bytes_per_second=RATE)
        look = Looks(costs, draw, wrong)
        most = look((Chosen(Action.KEEP),) * count)
        assert most is not None
        found: list[Verified] = []
        least = set[int]()
        for budget in sorted(draw.randrange(1, round(1.2 * most)) for _ in range(200)):
            look.asked.clear()
            try:
                chosen, fastest = within(budget, frontier, look, ends(costs), late(costs, frontier))
            except ImpossibleError as error:
                least.add(error.least_bytes)
            else:
                assert chosen.peak_bytes == look(chosen.chosen) <= budget
                assert chosen.time_ns >= fastest.time_ns
                found.append(chosen)
            assert len(set(look.asked)) <= 1 + PARTS + 2 + MOST_LOOKS
        for small, large in pairwise(found):
            assert small.peak_bytes <= large.peak_bytes
            assert small.time_ns >= large.time_ns
        assert len(least) <= 1
        assert all(each.peak_bytes >= bytes_ for bytes_ in least for each in found)
        for bytes_ in least:
            assert within(bytes_, frontier, look, ends(costs), late(costs, frontier))[0].peak_bytes == bytes_


def test_a_choice_takes_hardly_longer_than_the_best() -> None:
    """Where looking answers what the frontier says: between two ends, by halves."""
    draw = random.Random(3)
    costs = blocks(draw, 24)
    frontier = Frontier(costs, swap_bytes_per_second=RATE)
    look = Looks(costs, draw, 0)
    least, most = frontier.points[0][0], frontier.points[-1][0]
    for budget in range(least, most, (most - least) // 40):
        found, _ = within(budget, frontier, look)
        assert found.time_ns <= frontier.choose(max(least, budget - (most - least) // 16)).prediction.time_ns


def test_the_fastest_is_looked_at_alone_where_it_fits() -> None:
    costs = blocks(random.Random(1), 6)
    look = Looks(costs, random.Random(1), 0)
    frontier: Any = Frontier(costs, swap_bytes_per_second=RATE)
    found, fastest = within(10**9, frontier, look, ends(costs))
    assert found == fastest
    assert look.asked == [(Chosen(Action.KEEP),) * 6]


def test_the_last_resorts_are_taken_where_nothing_else_fits() -> None:
    """And not where something does that is faster, although they hold less."""
    costs = blocks(random.Random(4), 6)
    frontier = Frontier(costs, swap_bytes_per_second=RATE)
    (least, _) = late(costs, frontier)
    peaks = {least.chosen: 1}

    def look(chosen: Choice) -> int:
        return peaks.get(chosen, predict(costs, chosen, swap_bytes_per_second=RATE).peak_bytes)

    below = frontier.least_bytes - 1
    assert within(below, frontier, look, ends(costs), [least])[0].chosen == least.chosen
    assert within(below + 1, frontier, look, ends(costs), [least])[0].chosen != least.chosen
    with pytest.raises(ImpossibleError, match="less than 1 bytes"):
        within(0, frontier, look, ends(costs), [least])
