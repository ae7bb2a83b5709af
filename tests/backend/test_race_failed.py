"""Members of a race that failed, and what is said of those that have no place."""

from __future__ import annotations

from typing import Any

import pytest

from backend.races.ranking import rank
from backend.services.remarks import Happened, ended_so, remark, was_cancelled


def times(first: float, rounds: int = 3) -> dict[int, float]:
    """A member's rounds, which agree to a tenth of a percent."""
    return {number: first * (1 + number / 1_000) for number in range(rounds)}


def test_who_failed_in_a_round_has_no_place_and_takes_no_round_from_the_others() -> None:
    """It would be the fastest, over three rounds in place of five."""
    ran = {0: times(100e6, rounds=5), 1: times(110e6, rounds=5), 2: times(90e6)}
    first, second, gone = rank(ran, {2}, failed={2})
    assert [(one.member, one.rank, one.rounds) for one in (first, second, gone)] == [
        (0, 1, 5), (1, 2, 5), (2, None, 3),
    ]  # fmt: skip
    assert (gone.times_fastest, gone.speed_up, gone.significant) == (None, None, False)
    found = gone.beside
    assert found is not None
    assert (found.fastest, found.times, found.rounds) == (0, pytest.approx(0.9), 3)
    three = rank({0: times(100e6), 2: {**times(90e6), 1: 91e6}, 3: times(200e6)})
    same = rank({0: times(100e6), 2: {**times(90e6), 1: 91e6}, 3: times(200e6)}, failed={2})[-1].beside
    interval = next(one.speed_up_interval for one in three if one.member == 2)
    assert same is not None
    assert interval is not None
    assert [1 / end for end in same.interval] == pytest.approx(interval[::-1]), "it is one more of the pairs"
    assert [one.beside for one in rank({**ran, 2: times(90e6, rounds=2)}, {2}, failed={2})] == [None] * 3


def test_where_all_have_failed_they_are_compared_with_one_another() -> None:
    ran = {0: times(100e6), 1: times(110e6, rounds=4)}
    assert rank(ran, {0, 1}, failed={0, 1}) == rank(ran, {0, 1})


def test_what_is_said_of_members_without_a_place() -> None:
    base: dict[str, Any] = {"rounds": 2, "compared": False, "placed": False}
    for given, running, said in (
        ({"lost": "failed in round 3"}, False, "failed in round 3: 2 rounds are too few to rank it"),
        ({"lost": "failed in round 1", "rounds": 0}, False, "failed in round 1"),
        ({}, True, "still runs: 2 rounds are too few to rank it"),
        ({"compared": True}, True, None),
        ({"compared": True, "placed": True, "lost": "failed in round 4"}, False, None),
        (
            {"rounds": 3, "failed": True, "lost": "failed in round 4", "beside": "it was quick"},
            True,
            "failed in round 4 and has no place: it was quick",
        ),
        (
            {"rounds": 3, "failed": True, "joined_s": 60.0},
            False,
            "takes part no more and has no place",
        ),
        (
            {"compared": True, "placed": True, "failed": True, "lost": "failed in round 4"},
            False,
            "failed in round 4",
        ),
        (
            {"deleted": 1},
            False,
            "has lost the figures of 1 job, which somebody deleted: 2 rounds are too few to rank it",
        ),
        (
            {"joined_s": 1320.0, "rounds": 3},
            False,
            "joined 22 min after the others began and ran by itself: times between it and the others are not compared "
            "within rounds",
        ),
        ({"other_model": "the model is another one"}, False, "does not compare: the model is another one"),
    ):
        assert remark(Happened(**{**base, **given}), running=running) == said, given


def test_a_cancelled_job_says_nothing_of_its_member() -> None:
    assert was_cancelled(ended_so(3, "cancelled", None))
    assert not was_cancelled(ended_so(3, "failed", "round 1: cancelled: by hand"))
    assert not was_cancelled("cluster.workers = 3: the lab has 2 hosts")
