"""More than ten thousand interleavings of every exchange's machines with every mode of consistency, in one run."""

from __future__ import annotations

from random import Random

import pytest

from engine.protocol.home import Returns
from tests.engine.test_protocol_peers import EXCHANGES, MEETINGS, check_that_all_are_summed_once
from tests.engine.test_protocol_served import (
    LOST,
    MODES,
    check_that_all_are_applied_once,
    check_that_nobody_is_stopped,
)

pytestmark = pytest.mark.soak
EACH = 500
RETURNS: tuple[Returns, ...] = ("push", "notify-pull", "deferred-pull")


@pytest.mark.parametrize("mode", MODES)
def test_every_contribution_is_applied_once(mode: str) -> None:
    for seed in range(EACH):
        random = Random(seed)
        check_that_all_are_applied_once(mode, random.choice(RETURNS), random.random() < 0.5, random)


@pytest.mark.parametrize("mode", LOST)
def test_a_worker_that_is_lost_stops_nobody(mode: str) -> None:
    for seed in range(EACH):
        random = Random(seed)
        order, back = random.random() < 0.5, random.random() < 0.7
        check_that_nobody_is_stopped(mode, random.choice(RETURNS), order, random, back)


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("exchange", [name for name in EXCHANGES if name != "factors"])
def test_every_unit_is_the_sum_of_all(exchange: str, meeting: str) -> None:
    for seed in range(EACH):
        random = Random(seed)
        check_that_all_are_summed_once(exchange, meeting, random.randint(1, 6), random)


def test_everybody_gets_everybodys_factors() -> None:
    for seed in range(EACH):
        random = Random(seed)
        check_that_all_are_summed_once("factors", "every-step", random.randint(1, 6), random)
