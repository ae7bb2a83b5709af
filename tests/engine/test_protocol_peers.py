"""Exchanges between workers, where all meet in every step and where they average in turn: whatever comes in whatever
order, every unit is the sum of one contribution of each worker, of one step."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.consistency.average import Average, AverageSettings
from engine.consistency.streaming import Streaming, StreamingSettings
from engine.plan.rounds import HALVING_DOUBLING, RING, TREE
from engine.protocol.gathered import Gathered
from engine.protocol.rounds import Rounds
from tests.engine.peers_world import EveryStep, Meeting, World

PHASES = {0: (1,), 1: (5,), 2: (7, 4), 3: (4, 0, 2)}
"""Numbers of each unit that are summed in each of its phases: also fewer than there are workers."""
COUNTS = {unit: sum(phases) for unit, phases in PHASES.items()}
STEPS = 6
EXCHANGES: dict[str, Callable[[int, int], Rounds | Gathered]] = {
    "ring": lambda rank, workers: Rounds(RING, rank=rank, workers=workers, counts=PHASES),
    "tree": lambda rank, workers: Rounds(TREE, rank=rank, workers=workers, counts=PHASES),
    "halving-doubling": lambda rank, workers: Rounds(
        HALVING_DOUBLING, rank=rank, workers=workers, counts=PHASES
    ),
    "factors": lambda rank, workers: Gathered(rank=rank, workers=workers),
}
MEETINGS: dict[str, Callable[[int], Meeting]] = {
    "every-step": lambda workers: EveryStep(),
    "average": lambda workers: Average(AverageSettings(period=2), workers=workers, total_steps=STEPS),
    "streaming": lambda workers: Streaming(
        StreamingSettings(period=3, fragments=2, delay=1), workers=workers, total_steps=STEPS
    ),
}


def check_that_all_are_summed_once(exchange: str, meeting: str, workers: int, random: Random) -> None:
    """One interleaving to its end."""
    when = MEETINGS[meeting](workers)
    it = World(
        lambda rank: EXCHANGES[exchange](rank, workers),
        PHASES,
        workers=workers,
        steps=STEPS,
        meeting=when,
        fragments=2,
        random=random,
    )
    it.run()
    all_were_summed_once(it)


def all_were_summed_once(it: World) -> None:
    """Of a world in which nothing can happen any more."""
    when, workers = it.meeting, len(it.workers)
    assert all(worker.step == STEPS for worker in it.workers.values()), "deadlock"
    left = {(unit, step) for unit in COUNTS for step in range(STEPS) if when.leaves(unit % 2, step)}
    assert it.sums.keys() == {(rank, *each) for rank in range(workers) for each in left}
    for (_, unit, step), elements in it.sums.items():
        assert elements == [{(rank, step): 1 for rank in range(workers)}] * COUNTS[unit]
    assert not any(worker.kept or worker.memory or worker.leaving for worker in it.workers.values())


@pytest.mark.parametrize(
    ("exchange", "meeting"),
    [
        (exchange, meeting)
        for exchange in EXCHANGES
        for meeting in MEETINGS
        if (exchange, meeting) == ("factors", "every-step") or exchange != "factors"
    ],
)
@given(workers=st.integers(1, 5), random=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_every_unit_is_the_sum_of_all(exchange: str, meeting: str, workers: int, random: Random) -> None:
    check_that_all_are_summed_once(exchange, meeting, workers, random)
