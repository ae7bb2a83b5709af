"""Backpropagation through time in bounded memory: the tabulated values, every order of steps tried, programs played."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from heapq import heappop, heappush
from itertools import pairwise
from math import comb
from typing import Any

import pytest

from engine.budget.instructions import Back, Instruction, Save, forwards
from engine.budget.sequence import Sequence
from engine.errors import UserError
from tests.engine.programs_played import Player

HIDDEN: dict[str, Any] = {}
INTERNAL: dict[str, Any] = {"hidden": None, "internal": 1}
KINDS = [HIDDEN, INTERNAL, {"internal": 2}, {"internal": 3}, {"hidden": 2, "internal": 3}]


def test_hidden_states_cost_what_is_tabulated() -> None:
    assert [Sequence(10, m).cost() for m in range(6)] == [55, 30, 25, 24, 23, 22]
    assert [Sequence(50, m).cost() for m in range(5)] == [1275, 335, 230, 194, 172]
    wide = Sequence(60, 11)
    assert [wide.cost(m - 1) for m in (1, 2, 3, 4, 5, 8, 12)] == [1830, 440, 294, 244, 216, 185, 166]


def test_internal_states_cost_what_is_tabulated() -> None:
    costs = [Sequence(10, m, **INTERNAL).cost() for m in range(11)]
    assert costs == [55, 24, 18, 16, 15, 14, 13, 12, 11, 10, 10]
    assert Sequence(1000, 50, **INTERNAL).cost() == 1949


def test_mixed_states_cost_what_is_tabulated() -> None:
    assert Sequence(10, 3, internal=3).cost() == 23
    assert Sequence(10, 3).cost() == 24
    assert Sequence(10, 1, **INTERNAL).cost() == 24
    long = Sequence(100, 49, internal=5)
    assert [long.cost(m) for m in (4, 9, 24, 49)] == [416, 307, 223, 190]
    assert [Sequence(100, m).cost() for m in (4, 9, 24, 49)] == [416, 322, 273, 248]


@pytest.mark.parametrize("steps", [1, 2, 7, 23, 60])
def test_costs_are_the_closed_forms(steps: int) -> None:
    """Griewank and Walther's for hidden states, and the like for internal ones."""
    hidden, internal = Sequence(steps, 12), Sequence(steps, 12, **INTERNAL)
    for m in range(13):
        r = next(r for r in range(steps + 1) if comb(m + 1 + r, m + 1) >= steps)
        assert hidden.cost(m) == (r + 1) * steps - comb(m + 1 + r, m + 2)
        r = next(r for r in range(steps + 2) if comb(m + r + 1, m + 1) - 1 >= steps)
        assert internal.cost(m) == r * steps - comb(m + r + 1, m + 2) + r


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_no_order_of_steps_is_cheaper(kind: dict[str, Any], steps: int) -> None:
    for slots in range(6):
        assert Sequence(steps, slots, **kind).cost() == cheapest(
            steps, slots, kind.get("hidden", 1), kind.get("internal")
        )


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 3, 10, 57])
def test_programs_run_in_their_slots_at_their_cost(kind: dict[str, Any], steps: int) -> None:
    plan = Sequence(steps, 40, **kind)
    for slots in (0, 1, 2, 3, 4, 5, 8, 13, 40):
        program = list(plan.program(slots))
        assert forwards(program) == plan.cost(slots)
        assert max(taken(program, steps, **kind)) <= slots


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_table_has_the_programs_of_all_that_is_shorter(kind: dict[str, Any]) -> None:
    long = Sequence(57, 40, **kind)
    for steps in (1, 2, 3, 10, 41, 57):
        short = Sequence(steps, 40, **kind)
        for slots in (None, 0, 1, 5, 13, 40):
            assert long.cost(slots, steps=steps) == short.cost(slots)
            assert list(long.program(slots, steps=steps)) == list(short.program(slots))
    with pytest.raises(UserError, match=r"steps = 58: the table has 57\. Make one for the longest"):
        long.cost(steps=58)
    with pytest.raises(UserError, match="steps = 0: must be 1 or more"):
        long.program(steps=0).__next__()


def test_a_long_sequence_runs_in_fifty_internal_states() -> None:
    plan = Sequence(1000, 50, **INTERNAL)
    program = list(plan.program())
    assert forwards(program) == 1949
    assert max(taken(program, 1000, **INTERNAL)) == 50


def test_more_slots_never_cost_more() -> None:
    plan = Sequence(100, 60, internal=4)
    costs = [plan.cost(m) for m in range(61)]
    assert all(after <= before for before, after in pairwise(costs))
    assert Sequence(20, 10**9).cost() == 2 * 20 - 1, "slots that are of no use take no room"
    assert Sequence(20, 10**9, internal=4).cost(80) == 20


@pytest.mark.parametrize(
    ("steps", "slots", "sizes", "said"),
    [
        (0, 1, {}, "steps = 0: must be 1 or more. Give"),
        (20_001, 1, {}, "slots = 1: a table has 20,000 steps at most"),
        (5, -1, {}, "slots = -1: must be 0 or more"),
        (5, 1, {"hidden": 0}, "the slots of a state = 0: must be 1 or more"),
        (
            20_000,
            20_000,
            {},
            "and that of 20,000 has room for 10 slots. Count memory in larger slots",
        ),
    ],
)
def test_what_is_refused(steps: int, slots: int, sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Sequence(steps, slots, **sizes)


def taken(
    program: list[Instruction], steps: int, *, hidden: int | None = 1, internal: int | None = None
) -> Iterator[int]:
    """The slots at each instruction. A step that is saved and goes backward at once takes none."""
    at_once = {
        one.stage for one, two in pairwise(program) if isinstance(one, Save) and two == Back(one.stage)
    }
    player = Player(steps, needs_state=False)
    yield 0
    for _ in player.play(program):
        stored = player.saved - at_once
        assert hidden is not None or not player.held
        assert internal is not None or not stored
        yield len(player.held) * (hidden or 0) + len(stored) * (internal or 0)


@cache
def cheapest(steps: int, slots: int, hidden: int | None, internal: int | None) -> int:
    """The least forward steps of all orders in which states are stored, dropped, run from and gone backward through:
    the shortest path from the first of these situations to one in which all steps went backward."""
    start: Situation = (frozenset(), frozenset(), None, steps - 1)
    waiting, seen, tie = [(0, 0, start)], set(), 0
    while True:
        cost, _, now = heappop(waiting)
        if now[3] < 0:
            return cost
        if now in seen:
            continue
        seen.add(now)
        for runs, after in moves(now):
            if len(after[0]) * (hidden or slots + 1) + len(after[1]) * (internal or slots + 1) <= slots:
                tie += 1
                heappush(waiting, (cost + runs, tie, after))


Situation = tuple[frozenset[int], frozenset[int], int | None, int]
"""Hidden states that are stored, internal ones by step, the state in hand, the step that goes backward next."""


def moves(now: Situation) -> Iterator[tuple[int, Situation]]:
    """What can be done next, with the forward steps that it takes."""
    held, saved, hand, back = now
    for state in {0, *held, *(step + 1 for step in saved), *(() if hand is None else (hand,))}:
        if state < back:
            yield 1, (held, saved, state + 1, back)
        if state <= back:
            yield 1, (held, saved | {state}, state + 1, back)
        if state == back:
            yield 1, (held, saved, None, back - 1)
    if hand is not None:
        yield 0, (held | {hand}, saved, hand, back)
    if back in saved:
        yield 0, (held, saved - {back}, None, back - 1)
    for state in held:
        yield 0, (held - {state}, saved, hand, back)
    for step in saved:
        yield 0, (held, saved - {step}, hand, back)
