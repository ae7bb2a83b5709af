"""Chains of unequal stages in bounded memory: every persistent schedule tried, programs played, budgets in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.budget.chain import Chain, Schedule, Stage
from engine.budget.instructions import Back, Hold, Run, Save
from engine.budget.sequence import Sequence
from engine.errors import UserError
from tests.engine.programs_played import Player

SIZE = st.sampled_from([0, 1, 2, 5, 9])
STAGE = st.builds(
    lambda output_bytes, more, **others: Stage(
        output_bytes=output_bytes, saved_bytes=output_bytes + more, **others
    ),
    output_bytes=SIZE,
    more=SIZE,
    forward_ns=SIZE,
    backward_ns=SIZE,
    forward_extra_bytes=SIZE,
    backward_extra_bytes=SIZE,
)


def stage(forward_ns: int, output_bytes: int, saved_bytes: int, forward_extra_bytes: int = 0) -> Stage:
    return Stage(
        forward_ns=forward_ns,
        backward_ns=1,
        output_bytes=output_bytes,
        saved_bytes=saved_bytes,
        forward_extra_bytes=forward_extra_bytes,
    )


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(STAGE, min_size=1, max_size=5))
@example([stage(2, 1, 4), stage(1, 1, 2, 8), stage(2, 5, 5)])
@example([stage(1, 9, 9, 4), stage(3, 2, 2, 4), stage(1, 9, 12)])
def test_no_persistent_schedule_is_faster(stages: list[Stage]) -> None:
    """At each schedule's peak, and a byte below it: between these nothing changes. In the examples it matters what
    stages need that are passed."""
    chain = Chain(stages)
    for peak in (schedule.peak_bytes for schedule in chain.schedules):
        for budget in (peak - 1, peak):
            fastest = least_time(stages, budget)
            if fastest is None:
                assert budget < chain.least_bytes
                with pytest.raises(
                    UserError, match=f"no schedule needs less than {chain.least_bytes:,} bytes"
                ):
                    chain.schedule(budget)
            else:
                schedule = chain.schedule(budget)
                assert schedule.time_ns == fastest
                assert played(stages, schedule) <= budget


@pytest.mark.parametrize("count", [2, 3, 7, 20])
def test_equal_stages_cost_what_hidden_states_cost(count: int) -> None:
    """Where what backward needs is too large to be saved for more than one stage at a time."""
    large = 50
    stages = [Stage(forward_ns=1, backward_ns=0, output_bytes=1, saved_bytes=large)] * count
    chain, table = Chain(stages), Sequence(count, 20)
    for slots in range(21):
        assert chain.schedule(large + 2 + slots).time_ns == table.cost(slots)
    assert chain.least_bytes == large + 2
    assert chain.schedules[0].time_ns == count


def test_everything_is_saved_where_it_fits() -> None:
    stages = unlike(40)
    first = Chain(stages).schedules[0]
    assert first.program == (*map(Save, range(40)), *map(Back, range(39, -1, -1)))
    assert first.time_ns == sum(stage.forward_ns + stage.backward_ns for stage in stages)


def test_a_long_chain_keeps_to_any_budget() -> None:
    """Sizes are rounded in its table, and nowhere else."""
    stages = unlike(60)
    chain = Chain(stages)
    assert len(chain.schedules) > 20
    assert chain.schedules[-1].peak_bytes == chain.least_bytes
    for schedule in chain.schedules:
        assert played(stages, schedule) == schedule.peak_bytes
    assert all(a.time_ns < b.time_ns and a.peak_bytes > b.peak_bytes for a, b in pairwise(chain.schedules))
    chance = random.Random(3)
    budgets = sorted(chance.randint(chain.least_bytes, chain.schedules[0].peak_bytes) for _ in range(200))
    found = [chain.schedule(budget) for budget in budgets]
    assert all(schedule.peak_bytes <= budget for schedule, budget in zip(found, budgets, strict=True))
    assert all(a.peak_bytes <= b.peak_bytes and a.time_ns >= b.time_ns for a, b in pairwise(found))


def test_rounded_sizes_cost_little() -> None:
    """A chain whose sizes are so odd that they are rounded is planned nearly as well as the one without the odd bytes,
    whose table is exact."""
    chance = random.Random(5)
    even = [
        Stage(
            forward_ns=10,
            backward_ns=20,
            output_bytes=1000 * o,
            saved_bytes=1000 * (o + chance.randint(0, 9)),
        )
        for o in (chance.randint(1, 5) for _ in range(30))
    ]
    odd = [
        Stage(forward_ns=10, backward_ns=20, output_bytes=s.output_bytes + 1, saved_bytes=s.saved_bytes + 3)
        for s in even
    ]
    exact, rounded = Chain(even), Chain(odd)
    for budget in range(exact.least_bytes, exact.schedules[0].peak_bytes, 5000):
        assert rounded.schedule(budget + 100).time_ns <= exact.schedule(budget).time_ns * 1.02


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"forward_ns": -1}, "forward_ns = -1: must not be negative"),
        ({"saved_bytes": 1}, "saved_bytes = 1: has the output in it, 2 bytes. Add them"),
    ],
)
def test_what_is_refused_of_a_stage(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Stage(**{"forward_ns": 1, "backward_ns": 1, "output_bytes": 2, "saved_bytes": 2, **wrong})


@pytest.mark.parametrize("count", [0, 401])
def test_what_is_refused_of_a_chain(count: int) -> None:
    with pytest.raises(
        UserError, match=f"stages = {count}: a chain has 1 to 400 stages. Take several layers"
    ):
        Chain([Stage(forward_ns=1, backward_ns=1, output_bytes=2, saved_bytes=2)] * count)


def unlike(count: int) -> list[Stage]:
    """Stages no two of which are alike."""
    chance = random.Random(count)
    return [
        Stage(
            forward_ns=chance.randint(10**5, 10**7),
            backward_ns=chance.randint(10**5, 10**7),
            output_bytes=(output := chance.randint(10**5, 10**8)),
            saved_bytes=output + chance.randint(0, 3 * 10**8),
            forward_extra_bytes=chance.randint(0, 10**7),
            backward_extra_bytes=chance.randint(0, 10**8),
        )
        for _ in range(count)
    ]


def played(stages: list[Stage], schedule: Schedule) -> int:
    """The peak of a schedule whose program is played, and whose time is its stages'."""
    player, peak, time = Player(len(stages), needs_state=True), 0, 0
    sizes = [0, *(stage.output_bytes for stage in stages)]
    for step in player.play(schedule.program):
        held = sum(sizes[state] for state in player.held) + sum(stages[k].saved_bytes for k in player.saved)
        more = 0
        if isinstance(step, Run):
            stage = stages[step.start]
            in_hand = 0 if player.stays(step.start) else sizes[step.start]
            more = in_hand + stage.output_bytes + stage.forward_extra_bytes
            time += stage.forward_ns
        elif isinstance(step, Save):
            more = stages[step.stage].forward_extra_bytes
            time += stages[step.stage].forward_ns
        elif isinstance(step, Back):
            more = stages[step.stage].backward_extra_bytes
            time += stages[step.stage].backward_ns
        else:
            assert isinstance(step, Hold)
        peak = max(peak, sizes[player.back + 1] + held + more)
    assert time == schedule.time_ns
    return peak


Situation = tuple[frozenset[int], frozenset[int], int | None, int]
"""States that are held, stages that are saved, the state in hand, the stage that goes backward next."""


def least_time(stages: list[Stage], budget: int) -> int | None:
    """The least time of all orders in which states are held, stages run, saved and gone backward through, where what is
    stored stays until its stage went backward; None where no order fits."""
    start: Situation = (frozenset(), frozenset(), None, len(stages) - 1)
    waiting, seen, tie = [(0, 0, start)], set(), 0
    while waiting:
        time, _, now = heappop(waiting)
        if now[3] < 0:
            return time
        if now in seen:
            continue
        seen.add(now)
        for takes, peak, after in moves(stages, now):
            if peak <= budget:
                tie += 1
                heappush(waiting, (time + takes, tie, after))
    return None


def moves(stages: list[Stage], now: Situation) -> Iterator[tuple[int, int, Situation]]:
    """What can be done next, with its time and all bytes meanwhile."""
    held, saved, hand, back = now
    size = [0, *(stage.output_bytes for stage in stages)]
    all_held = size[back + 1] + sum(size[k] for k in held) + sum(stages[k].saved_bytes for k in saved)
    stays = {0, *held, *(stage + 1 for stage in saved)}
    for state in stays | (set() if hand is None else {hand}):
        if state < back:
            needs = size[state + 1] + stages[state].forward_extra_bytes
            in_hand = 0 if state in stays else size[state]
            yield stages[state].forward_ns, all_held + in_hand + needs, (held, saved, state + 1, back)
    if hand is not None and hand not in stays:
        yield 0, 0, (held | {hand}, saved, hand, back)
    for stage in stays - saved:
        if stage <= back:
            needs = stages[stage].saved_bytes + stages[stage].forward_extra_bytes
            yield stages[stage].forward_ns, all_held + needs, (held, saved | {stage}, stage + 1, back)
    if back in saved and back in stays:
        needs = stages[back].backward_extra_bytes
        yield stages[back].backward_ns, all_held + needs, (held - {back}, saved - {back}, None, back - 1)
