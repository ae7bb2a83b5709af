"""A race without a server: what is asked for, which jobs that makes in which order, and who is fastest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from backend.figures.speed import Speed
from backend.races.blocks import blocks, joined_ns
from backend.races.field import Cell, cells, conditions, job
from backend.races.order import Run, following, schedule
from backend.races.ranking import crossings, rank
from backend.races.spec import USUAL_ROUNDS, RaceSpec, labels
from backend.services.standings import Shown, _standing
from backend.services.verdict import sentence
from engine.errors import UserError
from engine.plan.serde import from_plain, to_plain
from engine.telemetry.limits import Figures

BASE: dict[str, Any] = {
    "name": "digits",
    "model": {"name": "mlp"},
    "data": {"name": "digits"},
    "training": {"steps": 20, "global_batch": 32},
    "cluster": {"workers": 2},
    "network": {"rate": "1Gbit"},
}


def race(*members: Any, **fields: Any) -> RaceSpec:
    named = [{"strategy": member} if isinstance(member, str) else member for member in members]
    return from_plain(RaceSpec, {"job": BASE, "members": named, **fields})


def test_every_member_runs_under_every_condition() -> None:
    asked = race("p3", "ddp", rates=["100Mbit", "1Gbit"], workers=[2, 4], batches=[64])
    assert [c.text for c in conditions(asked)] == [
        "100Mbit, 2 workers, batch 64",
        "100Mbit, 4 workers, batch 64",
        "1Gbit, 2 workers, batch 64",
        "1Gbit, 4 workers, batch 64",
    ]
    assert len(cells(asked)) == 8
    spec = job(asked, Cell(1, 1), round_=2)
    assert spec.name == "digits: ddp, 100Mbit, 4 workers, batch 64, round 3"
    assert (spec.strategy.name, spec.network.rate, spec.cluster.workers, spec.training.global_batch) == (
        "ddp",
        "100Mbit",
        4,
        64,
    )
    assert spec.cluster.alone
    assert not job(race("p3", beside=True), Cell(0, 0)).cluster.alone


def test_a_rate_is_spelled_in_one_way_however_it_was_asked_for() -> None:
    """Two rates that differ in a late digit are two conditions."""
    asked = race("p3", rates=["0100 Mbit/s", "1000.5Mbit", "1.0006Gbps", "64kbit"])
    assert [c.text for c in conditions(asked)] == ["100Mbit", "1.0005Gbit", "1.0006Gbit", "64kbit"]
    spec = job(asked, Cell(0, 0))
    assert (spec.name, spec.network.rate, spec.network.rate_bps) == (
        "digits: p3, 100Mbit, round 1",
        "100Mbit",
        10**8,
    )


def test_without_conditions_the_jobs_own_hold() -> None:
    asked = race("p3", "single")
    assert [c.text for c in conditions(asked)] == [""]
    assert job(asked, Cell(0, 0)).network.rate == "1Gbit"
    assert job(asked, Cell(0, 0)).name == "digits: p3, round 1"
    assert from_plain(RaceSpec, to_plain(asked)) == asked


def test_a_members_overrides_take_the_place_of_the_jobs() -> None:
    fp16 = [{"layers": "*", "codec": "fp16"}]
    asked = from_plain(
        RaceSpec,
        {
            "job": {**BASE, "overrides": fp16},
            "members": [{"strategy": "p3"}, {"strategy": "p3", "overrides": [], "name": "plain"}],
        },
    )
    assert len(job(asked, Cell(0, 0)).overrides) == 1
    assert job(asked, Cell(1, 0)).overrides == ()


def test_members_of_one_strategy_are_told_apart_by_their_options() -> None:
    asked = race({"strategy": "p3", "options": {"slice_size": 1000}}, "p3", "ddp")
    assert labels(asked.members) == ["p3 (slice_size=1000)", "p3", "ddp"]


@pytest.mark.parametrize(
    ("members", "fields", "said"),
    [
        ([], {}, "members = []: nobody races"),
        (["p4"], {}, "members.0.strategy = 'p4': no such strategy. Known: async-sgd, bounded-staleness"),
        (["p3", "p3"], {}, "two members are called 'p3'"),
        (["p3"], {"rounds": 0}, "rounds = 0"),
        (["p3"], {"rates": ["fast"]}, "rates.0 = 'fast'"),
        (["p3"], {"rates": ["1Gbit", "1Gbit"]}, "one of them is there twice"),
        (
            ["p3"],
            {"rates": ["1Gbit", "1000Mbit"]},
            "rates = ['1Gbit', '1000Mbit']: one of them is there twice",
        ),
        (["p3"], {"workers": [2, 2]}, "workers = [2, 2]: one of them is there twice"),
        (["p3", "ddp"], {"rounds": 50, "workers": list(range(1, 40))}, "are 3900 jobs; at most 2000"),
        (["p3"], {"name": " "}, "must have 1 to 200 characters"),
    ],
)
def test_what_cannot_race_is_refused(members: list[str], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        race(*members, **fields)
    assert said in str(caught.value)


def test_in_every_round_another_member_begins() -> None:
    order = [(run.round, run.cell.member) for run in schedule(3, 1, 3)]
    assert order == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 0), (2, 2), (2, 0), (2, 1)]


def test_what_is_out_runs_no_more_and_who_comes_later_catches_up() -> None:
    done = {Run(0, Cell(0, 0))}
    assert following(2, 1, 2, done, ()) == Run(0, Cell(1, 0))
    assert following(2, 1, 2, done, {Cell(1, 0)}) == Run(1, Cell(0, 0))
    finished = set(schedule(2, 1, 2))
    assert following(2, 1, 2, finished, ()) is None
    assert following(3, 1, 2, finished, ()) == Run(0, Cell(2, 0))


def test_a_clear_difference_is_one_in_three_rounds() -> None:
    standings = rank({0: {0: 150.0, 1: 151.0, 2: 149.0}, 1: {0: 100.0, 1: 101.0, 2: 99.5}})
    assert [(s.member, s.rank, s.significant) for s in standings] == [(1, 1, False), (0, 2, True)]
    assert standings[1].times_fastest == pytest.approx(1.5, rel=0.01)
    assert standings[1].interval is not None
    assert standings[1].interval[0] > 1.4


def test_drift_that_all_share_hides_nothing() -> None:
    """The machine is twice as slow in the last round; within each round the same member is 5 % slower."""
    standings = rank({0: {0: 105.0, 1: 106.0, 2: 210.0}, 1: {0: 100.0, 1: 101.0, 2: 200.0}})
    assert standings[1].significant


@pytest.mark.parametrize("rounds", [1, 2])
def test_fewer_than_three_rounds_prove_nothing(rounds: int) -> None:
    times = {number: 100.0 + number / 100 for number in range(rounds)}
    standings = rank({0: {n: 2 * t for n, t in times.items()}, 1: times})
    assert [s.rank for s in standings] == [None, None]
    assert standings[1].times_fastest == pytest.approx(2)
    assert standings[1].interval is None, "of two rounds it may be 0.000 to 11569416.392"
    assert not standings[1].significant


def test_equals_are_told_apart_in_one_race_of_twenty_at_most() -> None:
    random = np.random.default_rng(1)
    for members in (2, 4):
        found = 0
        for _ in range(2_000):
            times = random.lognormal(0, 0.05, (members, 3))
            standings = rank({m: dict(enumerate(times[m].tolist())) for m in range(members)})
            found += any(s.significant for s in standings)
        assert found / 2_000 <= 0.05


def test_equals_whose_speed_has_two_modes_are_told_apart_no_more_often() -> None:
    """A job runs in one of two ways for its whole life, for example by where its threads were placed. Three rounds
    in one order by chance, which agree to a percent, would make 3 % of races significant by themselves."""
    random = np.random.default_rng(1)
    found = 0
    for _ in range(2_000):
        times = random.choice([1.0, 1.16], (2, USUAL_ROUNDS)) * random.lognormal(0, 0.01, (2, USUAL_ROUNDS))
        found += rank({m: dict(enumerate(times[m].tolist())) for m in range(2)})[1].significant
    assert found / 2_000 <= 0.03


def test_rounds_that_agree_better_than_their_steps_prove_nothing() -> None:
    """Steps that scatter so much that their medians are known to 5 % cannot tell 3 %, however well rounds agree."""
    ran = {0: {0: 103.0, 1: 103.1, 2: 102.9}, 1: {0: 100.0, 1: 100.0, 2: 100.0}}
    assert rank(ran)[1].significant
    known = {member: dict.fromkeys(range(3), 0.05) for member in ran}
    unsure = rank(ran, errors=known)[1]
    assert not unsure.significant
    assert unsure.interval is not None
    # Of two figures with an error of 0.05 each, over three rounds: 4.30 by Student's t for two degrees of freedom.
    assert math.log(unsure.interval[1] / unsure.interval[0]) / 2 == pytest.approx(
        4.303 * 0.05 * math.sqrt(2 / 3), rel=1e-3
    )
    well = rank(ran, errors={0: dict.fromkeys(range(3), 1e-4)})[1]
    assert well == rank(ran)[1], "rounds scatter more than that"


def test_who_has_no_figures_has_no_rank() -> None:
    assert rank({}) == []
    assert [s.member for s in rank({0: {}, 1: {0: 5.0}})] == [1]
    apart = rank({0: {0: 10.0}, 1: {1: 20.0}})
    assert (apart[1].interval, apart[1].significant) == (None, False)


NAMES = ["slow", "fast", "gone"]


def times(first: float, rounds: int = 3) -> dict[int, float]:
    """A member's rounds, which agree to a tenth of a percent."""
    return {number: first * (1 + number / 1_000) for number in range(rounds)}


def test_who_dropped_out_early_keeps_the_others_from_no_verdict() -> None:
    ran = {0: times(150e6), 1: times(100e6), 2: times(90e6, rounds=1)}
    standings = rank(ran, out={2})
    assert [(s.member, s.significant) for s in standings] == [(1, False), (0, True), (2, False)]
    said = sentence(standings, NAMES, 3, lambda fast, slow: "a cause", remarks={2: "failed in round 2"})
    assert said == "fast finishes a step 1.50x sooner than slow: a cause. gone failed in round 2"
    assert [s.member for s in rank(ran)] == [1, 0, 2], "who has too few rounds is held against nobody"


def test_a_result_of_a_race_beside_other_jobs_says_so() -> None:
    ran = {0: times(150e6), 1: times(100e6)}
    said = sentence(rank(ran), ["slow", "fast"], 3, lambda fast, slow: "a cause", beside=True)
    assert said == (
        "fast finishes a step 1.50x sooner than slow: a cause. Other jobs were allowed to run at the same time"
    )
    nobody = sentence([], ["slow", "fast"], 3, lambda fast, slow: None, beside=True)
    assert nobody == "No member has figures yet", "there is no result"


def test_who_has_run_too_few_rounds_is_level_with_nobody() -> None:
    ran = {0: times(100e6), 1: times(100.1e6), 2: times(100.2e6, rounds=1)}
    said = sentence(rank(ran), ["a", "b", "late"], 3, lambda fast, slow: None)
    assert said == "No significant difference after 3 rounds: a step takes a 100 ms, b 100 ms"
    ran[1] = times(150e6)
    said = sentence(rank(ran), ["a", "b", "late"], 3, lambda fast, slow: None)
    assert said == "a finishes a step 1.50x sooner than b"


def test_who_misses_a_round_is_compared_over_the_rounds_that_both_ran() -> None:
    """By the mean over all its rounds the faster one would come last: one of them was slow, alone."""
    ran = {0: {0: 100e6, 1: 100.5e6, 2: 99.8e6, 3: 250e6}, 1: {0: 110e6, 1: 111e6, 2: 110e6}}
    first, second = rank(ran)
    assert rank(ran, {1}) == [first, second], "its job was cancelled, which says nothing of it"
    assert [(s.member, s.rank, s.over) for s in (first, second)] == [(0, 1, (0, 1, 2)), (1, 2, (0, 1, 2))]
    assert second.times_fastest == pytest.approx(second.iteration_ns / first.iteration_ns)
    assert sentence([first, second], ["a", "b"], 4, lambda fast, slow: None) == (
        "a finishes a step 1.10x sooner than b"
    )


def test_who_has_too_few_rounds_has_no_place() -> None:
    ran = {0: {0: 100e6, 1: 101e6, 2: 100e6}, 1: {0: 110e6, 1: 111e6, 2: 110e6}, 2: {0: 300e6, 1: 299e6}}
    assert [(s.member, s.rank) for s in rank(ran)] == [(0, 1), (1, 2), (2, None)]
    last = rank(ran)[2]
    assert (last.times_fastest, last.interval) == (None, None), "its rounds are not those of the others"
    assert last.iteration_ns == pytest.approx(299.5e6, rel=1e-4)


def test_figures_side_by_side_follow_from_one_another() -> None:
    random = np.random.default_rng(2)
    for _ in range(200):
        ran = {
            member: {n: float(random.lognormal(0, 0.3)) for n in range(6) if random.random() < 0.8}
            for member in range(4)
        }
        compared = [one for one in rank(ran, {3}) if one.times_fastest is not None]
        for one in compared:
            assert one.over == compared[0].over
            assert one.times_fastest == pytest.approx(one.iteration_ns / compared[0].iteration_ns)
            assert one.times_fastest >= 1
            assert (one.rank is None) == (one.rounds < 3)


def test_members_stand_in_a_headline_by_their_place_each_with_its_own_cause() -> None:
    ran = {0: times(200e6), 1: times(150e6), 2: times(100e6), 3: times(100.1e6)}
    names = ["last", "third", "first", "level"]
    said = sentence(rank(ran), names, 3, lambda fast, slow: f"{names[fast]} and {names[slow]}")
    assert said == (
        "first, level with level, finishes a step 1.50x sooner than third (first and third), 2.00x sooner than last "
        "(first and last)"
    )


def test_who_may_be_far_behind_is_not_level_however_little_is_certain() -> None:
    wild = {0: 100e6, 1: 260e6, 2: 151e6}
    ran = {0: times(100e6), 1: wild, 2: times(200e6), 3: times(100.1e6)}
    names = ["first", "wild", "last", "near"]
    standings = rank(ran)
    low, high = next(one.interval for one in standings if one.member == 1) or (0.0, 0.0)
    assert low < 1 < high
    chance = f"which may be chance: {low:.2f}x to {high:.2f}x"
    said = sentence(standings, names, 3, lambda fast, slow: "a cause")
    assert said == (
        f"first, level with near, finishes a step 1.58x sooner than wild ({chance}), 2.00x sooner than last (a cause)"
    )
    del ran[2]
    said = sentence(rank(ran), names, 3, lambda fast, slow: "a cause")
    assert said.startswith(
        "Too few to tell of wild yet after 3 rounds (7 more rounds would probably tell): a step takes first 100 ms, "
        "near 100 ms, wild 158"
    )
    assert "(first is 1.58x as fast, which may be chance: 0." in said


def test_a_race_that_has_ended_awaits_nothing() -> None:
    def ended(ran: dict[int, dict[int, float]], state: Any, remarks: dict[int, str]) -> str:
        return sentence(rank(ran), NAMES, 3, lambda fast, slow: None, state=state, remarks=remarks)

    lost = {0: "failed in round 2: 1 round is too few to rank it"}
    assert ended({0: times(1e6, 1), 1: times(2e6)}, "finished", lost) == (
        "Nobody can tell who is fastest: 1 round is too few, 3 are the fewest that prove something. slow failed in "
        "round 2: 1 round is too few to rank it"
    )
    assert ended({}, "finished", {0: "failed in round 1"}) == (
        "No member has figures. slow failed in round 1"
    )
    assert ended({1: times(2e6)}, "finished", {}) == "Only fast has figures: 2 ms an iteration"
    assert ended({0: times(1e6, 1), 1: times(2e6, 1)}, "cancelled", {}).endswith(
        "The race was cancelled after 1 round"
    )
    assert ended({}, "cancelled", {}) == (
        "No member has figures. The race was cancelled before its first round had ended"
    )


def made(*order: tuple[int, int]) -> dict[Run, int]:
    """Jobs of one condition, (member, round) in the order in which they were made, one a second."""
    return {Run(round_, Cell(member, 0)): at * 10**9 for at, (member, round_) in enumerate(order)}


def test_a_member_that_joins_later_shares_no_block_with_rounds_that_were_over() -> None:
    ran = made((0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2))
    found = blocks(ran, 0)
    assert {found[run] for run in ran if run.cell.member < 2} == {(0, 0), (0, 1), (0, 2)}
    assert [found[Run(n, Cell(2, 0))] for n in range(3)] == [(1, 0), (1, 1), (1, 2)]
    assert joined_ns(ran, 0) == {2: 6 * 10**9}
    took = {0: 100e6, 1: 110e6, 2: 10e6}
    by_block = {
        member: {
            found[run]: took[member] * (1 + run.round / 1_000) for run in ran if run.cell.member == member
        }
        for member in took
    }
    assert [(s.member, s.rank, s.times_fastest is None) for s in rank(by_block)] == [
        (0, 1, False),
        (1, 2, False),
        (2, None, True),
    ]


def test_who_lost_the_figures_of_the_first_round_has_not_joined_later() -> None:
    ran = made((0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2))
    del ran[Run(0, Cell(0, 0))]
    found = blocks(ran, 0)
    assert joined_ns(ran, 0) == {}
    for round_ in (1, 2):
        assert found[Run(round_, Cell(0, 0))] == found[Run(round_, Cell(1, 0))]


def test_who_joins_while_a_round_is_under_way_shares_it_and_all_that_follow() -> None:
    ran = made((0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (0, 1), (2, 1), (3, 1), (2, 2), (0, 2))
    found = blocks(ran, 0)
    assert found[Run(0, Cell(2, 0))] == found[Run(0, Cell(3, 0))] == (1, 0), "they joined together"
    assert found[Run(1, Cell(2, 0))] == found[Run(1, Cell(1, 0))] == (0, 1)
    assert found[Run(2, Cell(2, 0))] == found[Run(2, Cell(0, 0))] == (0, 2)


def test_nobody_is_late_who_ran_in_the_order_of_the_schedule() -> None:
    for members, number in ((3, 1), (2, 3)):
        order = {run: at for at, run in enumerate(schedule(members, number, 4))}
        for condition in range(number):
            assert joined_ns(order, condition) == {}
            found = blocks(order, condition)
            assert all(block == (0, run.round) for run, block in found.items())


def test_two_curves_meet_where_their_order_changes() -> None:
    (rate,) = crossings([100, 1000], [10.0, 1.0], [5.0, 2.0])
    assert rate == pytest.approx(100 * 10**0.5)
    assert crossings([100, 1000], [10.0, 1.0], [20.0, 2.0]) == []


def test_the_exposed_time_is_the_mean_share_of_the_rounds_of_the_iteration() -> None:
    """Rounds of 100 and 400 ms, of which 50 and 40 ms were waited: 50 and 10 % of what is 200 ms."""
    rounds = []
    for iteration_ns, exposed_ns in ((100e6, 50e6), (400e6, 40e6)):
        speed = Speed(
            first=5, last=20, iteration_ns=iteration_ns, interval_ns=None, error=None, throughput=None,
            exposed_ns=exposed_ns, compute_ns=None,
        )  # fmt: skip
        share = Figures(exposed=exposed_ns / iteration_ns, port=None, processors=None)
        rounds.append(Shown(speed=speed, machine=None, figures=share))
    (place,) = rank({0: {0: 100e6, 1: 400e6}})
    found = _standing(0, "p3", place, rounds, None, [], None, None)
    assert (found.iteration_ms, found.exposed_ms) == (pytest.approx(200), pytest.approx(60))
    assert found.limit is not None
    assert "workers wait 30 % of the step" in found.limit.sentence, "bar and sentence say the same share"
    assert _standing(0, "p3", None, [], None, [], None, None).exposed_ms is None
