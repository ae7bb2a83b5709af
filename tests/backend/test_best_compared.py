"""Who is compared when it is asked which plan is best, and how certainly: failures, divergence, rounding, reasons."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backend.best_rows import last, rows
from backend.figures.evaluated import Evaluated
from backend.figures.speed import Speed
from backend.races.criteria import Course, judge, still_rising
from backend.races.fastest import as_ranked
from backend.races.ranking import rank
from backend.services import best_report
from backend.services.best import Learned, _codecs, _curve, _notes, possible
from backend.services.best_words import Facts, made_of, reason, sentence, verdict
from backend.services.standings import Course as Standing
from backend.services.verdict import sentence as headline
from tests.backend.test_best_pure import AHEAD, NAMES, answer, by_name, rounds, run
from tests.backend.test_race_pure import race


def test_hooks_and_what_travels_between_layers_are_read_too() -> None:
    assert _codecs({"strategy": "ddp", "hook": {"name": "powersgd", "rank": 1}}) == ("powersgd",)
    edges = [{"codec": "fp16"}, {"codec": "fp32"}]
    assert _codecs({"layers": [{"codec": "fp32"}], "edges": edges}) == ("fp16",)
    assert made_of(Facts(codecs=_codecs({"hook": {"name": "fp16"}}))) == "what travels is encoded by fp16"


def learned(*values: float, drifts: bool = False) -> Learned:
    """A run's evaluations, one after each step."""
    number = np.arange(1.0, 1 + len(values))
    evaluations = Evaluated(
        step=number, samples=number, sent_bytes=number, seconds=number, value=np.array(values)
    )
    speed = Speed(
        first=0,
        last=1,
        iteration_ns=None,
        interval_ns=None,
        error=None,
        throughput=None,
        exposed_ns=None,
        compute_ns=None,
    )
    return Learned(evaluations=evaluations, speed=speed, facts=Facts(), drifts=drifts)


def test_a_curve_ends_where_a_run_of_it_diverged() -> None:
    curve = _curve(0, "p3", {0: learned(3.0, 2.0, 1.0, 0.9), 1: learned(3.0, 2.5, math.nan, 2.0)}, "loss")
    assert [(point.step, point.score) for point in curve.points] == [(1, 3.0), (2, 2.25)]
    best = answer(("p3",), {0: AHEAD[0]})
    assert last(best, curve)[-1] == "2", "so many runs"
    assert last(best, _curve(0, "p3", {0: learned(math.nan)}, "loss"))[-1] == "1"


def test_no_interval_of_a_score_goes_where_no_score_can_be() -> None:
    """A wide one around 20 % ended at -2 %."""
    values = (0.02, 0.1, 0.98)
    curve = _curve(0, "p3", {number: learned(value) for number, value in enumerate(values)}, "accuracy")
    assert [(point.low, point.high) for point in curve.points] == [(0, 1)]
    best = answer(("p3",), {0: rounds(*(run(value, speed=1.0) for value in values))})
    assert {(row[1], row[2]) for row in rows(best, best.conditions[0].criteria[1])} == {
        ("36.67 %", "0.00 % to 100.00 %")
    }
    assert possible((-1.0, 7.0), "loss") == (0, 7), "a loss has no highest value"


def test_notes_say_what_time_counts() -> None:
    course = Standing(spec=race("p3", "async-sgd", reseed=True), state="finished", jobs={}, made={}, outs={})

    def said(**runs: bool) -> list[str]:
        own = {member: {0: learned(0.5, drifts=drifts)} for member, drifts in enumerate(runs.values())}
        return [note for note in _notes(course, 0, own, "accuracy") if note.startswith("Time counts")]

    assert said(p3=False) == ["Time counts from the first step, evaluations included"]
    (drifting,) = said(p3=False, async_sgd=True)
    assert drifting.endswith("worker 0 evaluates alone and the others train on meanwhile")
    assert said() == []


# --- who is not compared ---


def test_who_failed_in_a_round_is_not_compared_and_takes_no_block_from_the_others() -> None:
    """In all five rounds the two others differ by chance; in the three that the third one ran, the first would lead."""
    first = rounds(*[run(0.5, score) for score in (0.80, 0.81, 0.79, 0.70, 0.70)])
    second = rounds(*[run(0.5, score) for score in (0.70, 0.70, 0.70, 0.80, 0.81)])
    failed = rounds(*[run(0.6, 0.9)] * 3)
    found = by_name({0: first, 1: second, 2: failed}, out={2})
    for name in ("speed", "attained", "in_samples"):
        assert (found[name].blocks, found[name].absent, set(found[name].best)) == (5, {2: "out"}, {0, 1})
    said = verdict(found["attained"], NAMES, "accuracy", running=False)
    assert said.endswith(". ring is not compared: it is out of the race")
    every = by_name({0: first, 1: failed}, out={0, 1})["attained"]
    assert (every.blocks, every.absent) == (3, {}), "where all are out they are compared as far as they ran"


def test_who_diverged_from_a_seed_is_not_compared_by_scores() -> None:
    """From two of three seeds it learns best. Its evaluations end when all others' do, and move nobody's."""
    wild = rounds(run(2.0, 0.5), run(2.0, 0.5), run(2.0, math.nan))
    fast = rounds(*[run(2.0, math.inf, pace=400.0)] * 3)
    runs = {0: AHEAD[0], 1: AHEAD[1], 2: wild, 3: fast}
    found, names = by_name(runs, "loss"), (*NAMES, "fast")
    alone = by_name(AHEAD, "loss")
    for name in ("attained", "in_time", "in_samples"):
        assert found[name].absent == {2: "diverged", 3: "diverged"}
        assert (found[name].places, found[name].at) == (alone[name].places, alone[name].at)
        said = verdict(found[name], names, "loss", running=False)
        assert said.endswith(". ring and fast are not compared: they diverged")
    assert found["speed"].absent == {}, "it is as fast as it is"
    assert still_rising(run(3.0, 2.0, 1.5, 1.0), "loss")
    assert not still_rising(run(3.0, 2.0, math.nan, 1.0), "loss")
    nobody = verdict(by_name({0: wild}, "loss")["attained"], NAMES, "loss", running=False)
    assert nobody == "No plan has a figure. p3 is not compared: it diverged"


def test_who_is_not_compared_says_nothing_of_when_the_others_are() -> None:
    """The third one ends after 5 s, from one seed of three; the fourth one is out."""
    short = {0: run(0.5, pace=200.0)}
    quick = rounds(*[run(0.5, 0.6, pace=1000.0)] * 3)
    found = by_name({0: AHEAD[0], 1: AHEAD[1], 2: short, 3: quick}, out={3})
    assert (found["in_time"].at, found["in_samples"].at) == (20, 2000)
    assert found["in_samples"].absent == {2: "few", 3: "out"}
    assert found["attained"].absent == {2: "few", 3: "out"}
    assert "ring is not compared: it shares too few rounds" in verdict(
        found["attained"], (*NAMES, "quick"), "accuracy", running=False
    )


def test_equal_differences_of_rounded_accuracies_are_not_certain() -> None:
    """Of 360 test samples each run of the one has one more right: three differences of equal size, and no spread."""

    def of(*right: int) -> Course:
        return run(*(count / 360 for count in right))

    one, other = (
        rounds(of(300, 331), of(299, 335), of(301, 328)),
        rounds(of(300, 330), of(299, 334), of(301, 327)),
    )
    found = by_name({0: one, 1: other})["in_samples"]
    assert found.places[1].behind == pytest.approx(1 / 360)
    assert found.places[1].behind_interval is not None
    reach = 4.30265 / 360 / math.sqrt(6) / math.sqrt(3)
    assert found.places[1].behind_interval == pytest.approx((1 / 360 - reach, 1 / 360 + reach), abs=1e-8)
    assert found.worse == ()
    same = rounds(of(300, 331), of(300, 331), of(300, 331))
    own = by_name({0: same, 1: other})["in_samples"].places[0].interval
    assert own is not None
    assert own[1] > own[0], "nor is one plan by itself known more exactly than a sample"
    loss = by_name({0: one, 1: other}, "loss")["in_samples"].places[1]
    assert loss.behind_interval == pytest.approx((1 / 360, 1 / 360)), "losses are no multiples of anything"


def test_a_lead_that_a_slower_plan_has_outweighs_its_speed() -> None:
    slow = rounds(*(run(0.75, 0.8 + noise, pace=90) for noise in (0, 0.01, -0.01)))
    fast = rounds(*(run(0.4, 0.5 + noise, pace=100) for noise in (0, 0.01, -0.01)))
    found = by_name({0: slow, 1: fast})
    assert reason(found["in_time"], found, NAMES, {}) == (
        "p3 trains 0.90x as many samples per second as async-sgd, which its lead after equally many samples outweighs"
    )


# --- how few are too few ---


FAR = rounds(*(run(0.3, score) for score in (0.10, 0.30, 0.974)))
"""45.8 % on average, and from one seed of three as good as the best."""
TOP = rounds(*(run(0.3, score) for score in (0.973, 0.975, 0.971)))


def test_where_an_interval_spans_nearly_everything_there_are_too_few_seeds_to_tell() -> None:
    """Gaps of 0.873, 0.675 and -0.003: their standard deviation is 0.459, so that 6 seeds know their mean to 0.48 by
    Student's t, and 5 to 0.57, where it is 0.515."""
    found = by_name({0: FAR, 1: TOP})["in_samples"]
    (place,) = found.unsure
    assert (place.member, place.worse, place.missing) == (0, False, 3)
    assert verdict(found, NAMES, "accuracy", running=False) == (
        "Too few to tell (3 seeds; 3 more seeds would probably tell): async-sgd 97.30 %, p3 45.80 %"
    )
    best = answer(NAMES, {0: FAR, 1: TOP})
    assert "after equally many samples: too few to tell (3 more seeds would" in best.conditions[0].sentence
    (shown,) = (one for one in best.conditions[0].criteria[3].places if one.unsure)
    assert (shown.member, shown.missing) == (0, 3), "the API says so, too"
    assert [said for *_, said in rows(best, best.conditions[0].criteria[3])] == [
        "first", "too few to tell: 3 more seeds would probably tell"
    ]  # fmt: skip
    assert "<td>too few to tell: 3 more seeds would probably tell</td>" in "".join(best_report.parts(best))


def test_no_difference_is_seen_only_where_one_that_matters_is_ruled_out() -> None:
    """Gaps spread by 0.0010, and by 0.0043: their means are known to 0.0025 and 0.0106, and one point matters."""
    level = rounds(*(run(0.3, score) for score in (0.974, 0.975, 0.970)))
    close = rounds(*(run(0.3, score) for score in (0.9770, 0.9705, 0.9715)))
    found = by_name({0: TOP, 1: level})["in_samples"]
    assert (len(found.level), found.unsure) == (1, ())
    assert verdict(found, NAMES, "accuracy", running=False).startswith("No difference from")
    (place,) = by_name({0: TOP, 1: close})["in_samples"].unsure
    assert place.behind_interval is not None
    assert place.behind_interval[0] < 0.01 < place.behind_interval[1]
    same = by_name({0: FAR, 1: FAR})
    assert all(one.unsure == () for one in same.values()), "further seeds would be equal, too"


def test_who_may_be_behind_is_told_from_who_is_and_who_is_not() -> None:
    low = rounds(*(run(0.1, score - 0.5) for score in (0.973, 0.975, 0.971)))
    level = rounds(*(run(0.3, score) for score in (0.9729, 0.9748, 0.9711)))
    names = ("p3", "ring", "async-sgd", "ddp")
    found = by_name({0: TOP, 1: level, 2: FAR, 3: low})["in_samples"]
    assert [(one.member, one.worse, one.unsure) for one in found.places] == [
        (0, False, False), (1, False, False), (3, True, False), (2, False, True)
    ]  # fmt: skip
    said = verdict(found, names, "accuracy", running=True)
    assert said.startswith(
        "p3 and ring lead, and no difference from p3 is seen and there are too few to tell of async-sgd ("
    )
    assert ") yet: ddp is behind by 50.00 points (" in said
    assert "after equally many samples: p3 and ring, with too few seeds to tell of async-sgd" in sentence(
        list(by_name({0: TOP, 1: level, 2: FAR, 3: low}).values()), names, "accuracy"
    )
    table = rows(best := answer(names, {0: TOP, 1: FAR, 2: low}), best.conditions[0].criteria[3])
    assert [said.split(":")[0] for *_, said in table] == ["leads", "behind", "too few to tell"]
    beside = verdict(by_name({0: TOP, 1: level, 2: FAR})["in_samples"], names, "accuracy", running=False)
    assert beside.startswith(
        "No difference between p3 and ring seen after 3 seeds, and too few to tell of async-sgd"
    )


def test_of_speeds_rounds_are_missing_and_sometimes_more_than_anybody_runs() -> None:
    """Behind by 3 % (0.0296 in logarithms) on average, by 10 % more or less."""
    one, other = (
        rounds(*(run(0.5, 0.6, pace=pace) for pace in paces)) for paces in ((100, 100, 100), (107, 87, 98))
    )
    found = by_name({0: one, 1: other})["speed"]
    (place,) = found.unsure
    assert "more rounds would probably tell" in verdict(found, NAMES, "accuracy", running=False)
    assert place.missing is not None
    wild = rounds(*(run(0.5, 0.6, pace=pace) for pace in (300, 30, 110)))
    found = by_name({0: one, 1: wild})["speed"]
    assert found.unsure[0].missing is None
    assert "it would take more than the 50 rounds that a race may have" in verdict(
        found, NAMES, "accuracy", running=False
    )


def test_of_speeds_the_ranking_is_what_is_said() -> None:
    """The ranking knows how sure each job's own figure is, so that a lead on which rounds agree may be chance."""
    fast, slow = (run(0.5, 0.6, pace=pace) for pace in (110, 100))
    runs = {0: rounds(fast, run(0.5, 0.6, pace=111), fast), 1: rounds(slow, slow, slow)}
    (alone, *_) = judge(runs, "accuracy")
    times = {
        member: {block: 1e9 / (one.samples_per_s or 0) for block, one in own.items()}
        for member, own in runs.items()
    }
    unsure = {member: dict.fromkeys(own, 0.05) for member, own in runs.items()}
    ranked = rank(times, errors=unsure)
    found = as_ranked(alone, ranked, runs)
    assert [one.member for one in alone.worse] == [1]
    assert [(one.member, one.missing) for one in found.unsure] == [(1, ranked[1].missing)]
    rounds_named = f"({ranked[1].missing} more rounds would probably tell)"
    assert rounds_named in headline(ranked, NAMES, 3, lambda fast, slow: None)
    assert rounds_named.strip("()") in verdict(found, NAMES, "accuracy", running=False)
    assert as_ranked(alone, ranked[:1], runs) is alone, "a ranking of others"


def test_after_equally_many_samples_nobody_knows_who_is_ahead_of_whom() -> None:
    """The slow one ends far behind in the same time, and in as many samples it may be ahead or behind."""
    fast = rounds(*(run(0.5, score, pace=100) for score in (0.90, 0.91, 0.89)))
    slow = rounds(*(run(0.1, score, pace=60) for score in (0.95, 0.80, 0.90)))
    found = by_name({0: fast, 1: slow})
    assert found["in_time"].worse
    assert reason(found["in_time"], found, NAMES, {}) == (
        "p3 trains 1.67x as many samples per second as async-sgd, and there are too few seeds to tell which of the two "
        "is ahead after equally many samples"
    )
