"""What each member of a race gains over its first one: judged with the same intervals as who is the fastest; and
how many rounds would tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from backend.cli.races import report as terminal
from backend.races.ranking import rank
from backend.schemas.races import RaceView
from backend.services.racing import Racing
from backend.services.verdict import gains, sentence, verdict
from backend.tables import RaceTable
from engine.telemetry.comparison import certainty
from tests.backend.raced_jobs import run, show, submit

NAMES = ["plain", "second", "first", "wild"]


def times(first: float, rounds: int = 3) -> dict[int, float]:
    """A member's rounds, which agree to a tenth of a percent."""
    return {number: first * (1 + number / 1_000) for number in range(rounds)}


def test_a_gain_is_the_inverse_of_what_the_headline_says_of_the_same_two() -> None:
    ran = {0: {0: 150e6, 1: 171e6, 2: 149e6}, 1: times(120e6), 2: times(100e6)}
    first, second, plain = rank(ran)
    assert [one.member for one in (first, second, plain)] == [2, 1, 0]
    assert (plain.speed_up, plain.speed_up_interval) == (None, None), "it is the baseline"
    assert first.speed_up == pytest.approx(plain.times_fastest)
    assert first.speed_up_interval == pytest.approx(plain.interval)
    assert second.speed_up == pytest.approx(plain.iteration_ns / second.iteration_ns)
    again = {one.member: one for one in rank(ran, baseline=1)}
    assert again[2].speed_up == pytest.approx(second.times_fastest)
    assert (again[0].speed_up or 0) < 1


def test_equals_gain_something_for_certain_in_one_race_of_twenty_at_most() -> None:
    """By any of its comparisons, those with the fastest and those with the first."""
    random = np.random.default_rng(1)
    found = 0
    for _ in range(2_000):
        measured = random.lognormal(0, 0.05, (4, 3))
        standings = rank({m: dict(enumerate(measured[m].tolist())) for m in range(4)})
        found += any(
            one.significant
            or (one.speed_up_interval and certainty(one.speed_up or 1, one.speed_up_interval) == "certain")
            for one in standings
        )
    assert 0 < found / 2_000 <= 0.05


def test_it_is_said_where_the_headline_does_not_say_it() -> None:
    ran = {0: times(150e6), 1: times(120e6), 2: times(100e6), 3: {0: 100e6, 1: 260e6, 2: 151e6}}
    said = gains(rank(ran), NAMES)
    low, high = next(one.speed_up_interval for one in rank(ran) if one.member == 3) or (0.0, 0.0)
    assert said == (
        "Speed-up over plain, the first that was named: first 1.50x (1.50x to 1.50x), second 1.25x (1.25x to 1.25x), "
        f"wild 0.95x (which may be chance: {low:.2f}x to {high:.2f}x)"
    )
    assert gains(rank({0: times(150e6), 2: times(100e6)}), NAMES) is None, "the headline is about the two"
    assert gains(rank({0: times(90e6), 1: times(120e6), 2: times(100e6)}), NAMES) is None, "it is the fastest"
    assert gains(rank({1: times(120e6), 2: times(100e6), 3: times(110e6)}), NAMES) is None, (
        "it has no figures"
    )
    few = {member: times(1e6 + member, 2) for member in range(3)}
    assert gains(rank(few), NAMES) is None, "two rounds prove nothing"
    assert "1.50x sooner than plain" in sentence(rank(ran), NAMES, 3, lambda fast, slow: None), "as above"


def test_api_terminal_report_and_table_say_it(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "parameter-server", "p3", "ring-allreduce")
    run(api, racing, race, tmp_path)
    shown = show(api, race)
    (ranking,) = shown["rankings"]
    assert [one["name"] for one in ranking["standings"]] == ["p3", "ring-allreduce", "parameter-server"]
    assert [one["speed_up"] for one in ranking["standings"]] == [
        pytest.approx(3), pytest.approx(1.5), None,
    ]  # fmt: skip
    assert ranking["standings"][1]["speed_up_low"] == pytest.approx(1.5)
    said = "Speed-up over parameter-server, the first that was named: p3 3.00x (3.00x to 3.00x), ring-allreduce 1.50x"
    assert ranking["gains"].startswith(said)
    view = RaceView.model_validate(shown)
    table = RaceTable.of(view)
    assert [row["speed_up"] for row in table] == [pytest.approx(3), pytest.approx(1.5), None]
    page = api.get(f"/api/v1/races/{race['id']}/report").text
    for text in (terminal(view), " ".join(repr(table).split()), page):
        assert said in text


def test_who_cannot_be_told_apart_says_how_many_rounds_would() -> None:
    """The logarithms of their ratios are 0, 0.223 and 0.095, so that 0.106 on average and 0.112 by standard deviation:
    7 rounds know the mean to 0.104, 6 to 0.118. Noise that no race is long enough for has no number."""
    ran = {0: {0: 100e6, 1: 100e6, 2: 100e6}, 1: {0: 100e6, 1: 125e6, 2: 110e6}}
    first, second = rank(ran)
    assert (first.unsure, second.unsure, second.missing) == (False, True, 4)
    assert sentence([first, second], ["a", "b"], 3, lambda fast, slow: None, state="finished") == (
        "Too few to tell after 3 rounds (4 more rounds would probably tell): a step takes a 100 ms, b 111 ms "
        "(a is 1.11x as fast, which may be chance: 0.84x to 1.47x)"
    )
    crowded = verdict([first, second], ["a", "b"], 3, lambda fast, slow: None, state="finished", crowded=True)
    assert crowded.headline == "No order is certain: other programs filled this machine's processors"
    assert crowded.sentence.startswith(f"{crowded.headline}. Too few to tell after 3 rounds (4 more rounds")
    assert (first.tied, second.tied) == (True, True)
    assert not any(one.tied for one in rank({0: ran[0], 1: dict.fromkeys(ran[0], 200e6)}))
    behind = rank({0: ran[0], 1: {0: 300e6, 1: 301e6, 2: 300e6}, 2: {0: 299e6, 1: 303e6, 2: 302e6}})
    assert [(one.rank, one.tied) for one in behind] == [(1, False), (2, True), (2, True)], (
        "as with the first place"
    )
    ran[1] = {0: 30e6, 1: 290e6, 2: 119e6}
    (_, wild) = rank(ran)
    assert (wild.unsure, wild.missing) == (True, None)
    for missing in (None, 48):  # after three rounds
        said = sentence([first, replace(second, missing=missing)], ["a", "b"], 3, lambda fast, slow: None)
        assert "(it would take more than the 50 rounds that a race may have)" in said
    assert [one.unsure for one in rank({0: times(100e6), 1: times(100.1e6)})] == [False, False], (
        "they are level"
    )
    assert [one.unsure for one in rank({0: times(100e6, 2), 1: times(170e6, 2)})] == [False, False], (
        "two rounds tell nothing"
    )
