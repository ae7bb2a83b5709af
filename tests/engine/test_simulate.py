"""The virtual driver: it moves what the plan declares, and orders messages as papers 004 draws them."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.consistency.every_step import EveryStep
from engine.plan.traffic import declared
from engine.simulate.run import simulate
from tests.plans import PLANNED, described, planned


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", PLANNED)
def test_what_moves_is_what_is_declared(strategy: str, workers: int) -> None:
    model = described("alexnet")
    plan = planned(strategy, model, workers)
    found = simulate(plan, model, workers=workers, steps=1, policy=lambda: EveryStep(workers))
    expected: Counter[tuple[int, int, int]] = Counter()
    for one in declared(plan, model, workers):
        expected[one.source, one.destination, one.unit] += one.bytes
    assert found.moved == expected
