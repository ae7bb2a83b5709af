"""Which plan is best, without a server: the arithmetic of the four criteria, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from backend.best_rows import rows
from backend.races import problems
from backend.races.criteria import Course, Judged, Score, judge, still_rising
from backend.races.field import Cell, job
from backend.races.spec import MemberSpec, RaceSpec
from backend.schemas.best import BestCondition, BestCurve, BestPoint, RaceBest
from backend.services import best_report
from backend.services.best import _codecs, _criterion, score_of
from backend.services.best_words import Facts, made_of, reason, sentence, verdict
from engine.errors import UnknownNameError, UserError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from tests.backend.test_race_pure import BASE, race

NAMES = ("p3", "async-sgd", "ring")


def run(*score: float, pace: float = 100.0, every: float = 1000.0, speed: float | None = None) -> Course:
    """Evaluated after each `every` samples, `pace` of which take a second."""
    samples = tuple(every * (1 + number) for number in range(len(score)))
    seconds = tuple(one / pace for one in samples)
    return Course(samples=samples, seconds=seconds, score=score, samples_per_s=speed or pace)


def by_name(runs: dict[int, dict[Any, Course]], score: Score = "accuracy", **more: Any) -> dict[str, Judged]:
    return {one.name: one for one in judge(runs, score, **more)}


def rounds(*each: Course) -> dict[int, Course]:
    return dict(enumerate(each))


AHEAD = {
    0: rounds(run(0.5, 0.8), run(0.6, 0.9), run(0.4, 0.7)),
    1: rounds(run(0.4, 0.70), run(0.5, 0.81), run(0.3, 0.59)),
}
"""The first one is ahead of the other from every seed, by 0.1 and a hundredth more or less, though seeds differ by
more."""


def test_rounds_have_seeds_of_their_own_where_a_race_asks_for_it() -> None:
    def seeds(asked: RaceSpec) -> list[int]:
        return [
            job(asked, Cell(member, 0), round_).training.seed for round_ in range(3) for member in range(2)
        ]

    assert seeds(race("p3", "ddp")) == [0] * 6
    assert seeds(race("p3", "ddp", reseed=True)) == [0, 0, 1, 1, 2, 2], "members of a round share one"


def test_plans_are_compared_within_a_seed() -> None:
    """Differences of 0.10, 0.09 and 0.11: mean 0.1, standard deviation 0.01; Student's t for 2 degrees of freedom is
    4.3027."""
    found = by_name(AHEAD)["in_samples"]
    first, second = found.places
    assert (first.member, first.behind, first.worse) == (0, None, False)
    assert (second.member, second.worse) == (1, True)
    assert first.value == pytest.approx(0.8)
    assert second.behind == pytest.approx(0.1)
    reach = 4.30265 * 0.01 / math.sqrt(3)
    assert second.behind_interval == pytest.approx((0.1 - reach, 0.1 + reach), rel=1e-5)
    assert first.interval == pytest.approx((0.8 - 10 * reach, 0.8 + 10 * reach), rel=1e-5), (
        "seeds differ by more"
    )
    assert (found.best, found.blocks, found.enough) == ((0,), 3, True)


def test_the_error_is_divided_among_all_pairs() -> None:
    """Three members are three pairs: Student's t for 2 degrees of freedom at 0.05 / 3 is 7.6488."""
    three = {**AHEAD, 2: rounds(run(0.5, 0.79), run(0.6, 0.89), run(0.4, 0.69))}
    places = {place.member: place for place in by_name(three)["in_samples"].places}
    reach = 7.64888 * 0.01 / math.sqrt(3)
    assert places[1].behind_interval == pytest.approx((0.1 - reach, 0.1 + reach), rel=1e-4)


def test_there_are_too_few_to_tell_where_a_difference_may_be_chance_and_may_matter() -> None:
    """Behind by 0.1 on average, and ahead from one of the seeds: Student's t says 0.5 more or less. With a standard
    deviation of 0.2 it takes 18 seeds until that is less than 0.1."""
    other = rounds(run(0.4, 0.5), run(0.5, 0.8), run(0.3, 0.8))
    found = by_name({0: AHEAD[0], 1: other})["in_samples"]
    assert found.places[1].behind == pytest.approx(0.1)
    assert (found.best, found.worse) == ((0, 1), ())
    assert verdict(found, NAMES, "accuracy", running=False).startswith(
        "Too few to tell (3 seeds; 15 more seeds would probably tell): p3 80.00 %"
    )


def test_differences_that_are_certain_and_small_do_not_count() -> None:
    near = rounds(
        *(replace(one, score=tuple(value + 0.005 for value in one.score)) for one in AHEAD[0].values())
    )
    found = by_name({0: AHEAD[0], 1: near}, "loss")["in_samples"]
    assert found.places[1].behind_interval is not None
    assert found.places[1].behind_interval[0] > 0
    assert found.best == (0, 1)
    same = by_name({0: AHEAD[0], 1: AHEAD[0]})
    assert all(one.best == (0, 1) for one in same.values()), "equal plans are equal by every criterion"


def test_a_loss_is_better_where_it_is_lower() -> None:
    found = by_name(AHEAD, "loss")
    assert found["in_samples"].best == (1,)
    assert found["in_samples"].places[1].behind == pytest.approx(0.1)
    assert found["attained"].places[0].value == pytest.approx((0.4 + 0.5 + 0.3) / 3), "the lowest of each run"
    assert found["in_samples"].places[0].value == pytest.approx((0.70 + 0.81 + 0.59) / 3), "the last of each"


def test_speed_is_a_ratio_and_its_own_criterion() -> None:
    fast = rounds(*(run(0.5, 0.6, pace=pace) for pace in (200.0, 220.0, 210.0)))
    slow = rounds(*(run(0.5, 0.6, pace=pace) for pace in (100.0, 110.0, 105.0)))
    found = by_name({0: slow, 1: fast})["speed"]
    assert (found.places[0].member, found.at) == (1, None)
    assert found.places[1].behind == pytest.approx(2)
    assert found.places[1].behind_interval == pytest.approx((2, 2))
    assert found.places[0].value == pytest.approx((200 * 220 * 210) ** (1 / 3))
    said = verdict(found, NAMES, "accuracy", running=False)
    assert said == "async-sgd is best: 2.00x (2.00x to 2.00x) as fast as p3"


def test_in_a_given_time_a_fast_plan_may_lead_that_learns_less_from_a_sample() -> None:
    """The fast one ends after 20 s with 0.6; the slow one, which ends at 0.7, is half way then: between 0 and 40 s."""
    fast = rounds(*(run(0.5, 0.6 + noise, pace=100) for noise in (0, 0.01, -0.01)))
    slow = rounds(*(run(0.4, 0.7 + noise, pace=50) for noise in (0, 0.01, -0.01)))
    found = by_name({0: fast, 1: slow})
    assert found["in_time"].at == pytest.approx(20)
    assert [(one.member, one.value) for one in found["in_time"].places] == [
        (0, pytest.approx(0.6)),
        (1, pytest.approx(0.4)),
    ]
    assert (found["in_samples"].best, found["in_samples"].at) == ((1,), 2000)
    assert reason(found["in_time"], found, NAMES, {}) == (
        "p3 trains 2.00x as many samples per second as async-sgd, which outweighs that it is behind after equally many "
        "samples"
    )


def test_scores_are_interpolated_between_evaluations_and_never_guessed_before_the_first() -> None:
    """The first member ends after 15 s: the second one was evaluated after 10 s and 20 s, the third one not yet."""
    ends = rounds(*[run(0.5, 0.9, pace=1500 / 15, every=750)] * 3)
    between = rounds(*[run(0.4, 0.6, pace=100)] * 3)
    late = rounds(*[run(0.9, 0.95, pace=20)] * 3)
    found = by_name({0: ends, 1: between, 2: late})["in_time"]
    assert {one.member: one.value for one in found.places} == {0: pytest.approx(0.9), 1: pytest.approx(0.5)}
    assert found.absent == {2: "late"}
    said = verdict(found, NAMES, "accuracy", running=False)
    assert said.endswith(". ring is not compared: it had not been evaluated by then")


def test_what_is_attained_is_the_best_of_a_run_and_not_its_last() -> None:
    falls = rounds(run(0.9, 0.5), run(0.91, 0.5), run(0.89, 0.5))
    found = by_name({0: falls, 1: AHEAD[0]})
    assert found["attained"].places[0].value == pytest.approx(0.9)
    assert found["attained"].places[0].member == 0
    assert found["in_samples"].places[0].member == 1


def test_one_seed_proves_nothing_of_scores_however_often_it_ran() -> None:
    """From one seed synchronous plans repeat their scores: intervals without width would call every difference
    certain."""
    high, low = rounds(*[run(0.5, 0.8)] * 3), rounds(*[run(0.45, 0.7)] * 3)
    assert by_name({0: high, 1: low})["in_samples"].worse
    found = by_name({0: high, 1: low}, reseed=False)
    assert (found["in_samples"].enough, found["in_samples"].blocks) == (False, 1)
    assert "1 seed; 3 are the fewest" in verdict(found["in_samples"], NAMES, "accuracy", running=False)
    assert found["speed"].blocks == 3, "the machine differs all the same"
    assert sentence(list(found.values()), NAMES, "accuracy") == (
        "fastest: no difference from p3 seen; highest accuracy attained: too few figures; highest accuracy in the "
        "same time: too few figures; highest accuracy after equally many samples: too few figures"
    )


def test_without_figures_nothing_is_said() -> None:
    empty: dict[int, dict[Any, Course]] = {0: {}, 1: {}}
    for one in judge(empty, "accuracy"):
        assert verdict(one, NAMES, "accuracy", running=True) == "No plan has a figure yet"
        assert not one.enough
    assert sentence(judge(empty, "accuracy"), NAMES, "accuracy").startswith(
        "Nobody can tell which plan is best"
    )
    unscored = by_name({0: rounds(*[run(pace=10.0, speed=10.0)] * 3), 1: rounds(*[run(speed=30.0)] * 3)})
    assert unscored["speed"].best == (1,)
    assert unscored["attained"].places == ()


def test_a_run_still_rises_where_its_last_quarter_beats_all_before_it() -> None:
    assert still_rising(run(0.5, 0.6, 0.7, 0.8), "accuracy")
    assert not still_rising(run(0.5, 0.8, 0.7, 0.8), "accuracy")
    assert not still_rising(run(0.5, 0.8, 0.8005), "accuracy"), "too little to count"
    assert still_rising(run(2.0, 1.5, 1.2, 1.1), "loss")
    assert not still_rising(run(0.9), "accuracy"), "one evaluation does not rise"


def test_reasons_are_what_was_measured() -> None:
    found = by_name(AHEAD)
    late = {0: Facts(), 1: Facts(stale=0.93)}
    assert reason(found["in_samples"], found, NAMES, late) == (
        "p3: every step applies all gradients, whole and fresh; async-sgd: updates are 0.9 updates old on average when "
        "they are applied"
    )
    assert reason(found["in_samples"], found, NAMES, {}) is None, "nothing tells them apart"
    assert reason(found["speed"], found, NAMES, late) is None, (
        "and where there is no difference there is no reason"
    )
    assert made_of(Facts(period=10, codecs=("threshold",))) == (
        "workers train by themselves for 10 steps between averages, what travels is encoded by threshold"
    )
    paces = {number: rounds(*[run(0.5, 0.6, pace=pace)] * 3) for number, pace in enumerate((200.0, 100.0))}
    faster = by_name(paces)
    waits = {0: Facts(exposed=0.1, step_bytes=1e6), 1: Facts(exposed=0.55, step_bytes=4e6)}
    assert reason(faster["speed"], faster, NAMES, waits) == (
        "workers of p3 wait 10 % of a step for messages, those of async-sgd 55 %; p3 sends 976.6 KiB in a step, "
        "async-sgd 3.8 MiB"
    )
    assert reason(faster["speed"], faster, NAMES, {0: Facts(exposed=0.5), 1: Facts(exposed=0.51)}) is None


def test_words_are_compared_by_loss_and_images_by_accuracy() -> None:
    assert [score_of(name) for name in ("gpt", "lstm-lm", "vit", "resnet-digits", None)] == [
        "loss", "loss", "accuracy", "accuracy", "accuracy"
    ]  # fmt: skip


def test_what_is_rehearsed_or_never_evaluated_has_no_scores() -> None:
    def scored(**fields: Any) -> bool:
        return problems.is_evaluated(from_plain(JobSpec, {**BASE, **fields}))

    assert scored()
    assert scored(evaluation={"every_epochs": None, "every_steps": 5, "at_end": False})
    assert not scored(evaluation={"every_epochs": None, "at_end": False})
    assert not scored(fidelity="rehearse")


@pytest.mark.parametrize("entry", problems.PROBLEMS, ids=lambda entry: entry.name)
def test_every_problem_is_a_race_of_seeds(entry: problems.Problem) -> None:
    asked = problems.asked(problems.job(entry), seeds=4, steps=40)
    assert (asked.rounds, asked.reseed, asked.job.training.steps) == (4, True, 40)
    assert asked.job.evaluation.every_steps == 7, (
        "about 40 // EVALUATIONS, and no divisor with a period of 10 in common"
    )
    assert asked.members == problems.PLANS
    usual = problems.asked(problems.job(entry))
    assert (usual.rounds, usual.job.training.steps) == (problems.SEEDS, entry.steps)


def test_a_job_of_ones_own_keeps_what_it_says() -> None:
    (plan, *_) = problems.PLANS
    own = problems.asked({**BASE, "evaluation": {"every_epochs": 2.0}}, members=(plan,), seeds=3)
    assert (own.job.evaluation.every_steps, own.job.evaluation.every_epochs) == (None, 2.0)
    assert own.members == (plan,)
    assert to_plain(own.job)["training"]["steps"] == BASE["training"]["steps"]
    with pytest.raises(UnknownNameError, match=r"Known: .*digits.*gpt.*lstm"):
        problems.problem("digit")
    with pytest.raises(UserError, match="rounds = 0: must be at least 1"):
        problems.asked(problems.job(problems.problem("digits")), seeds=0)


# --- as people read it ---


def answer(names: tuple[str, ...], runs: dict[int, dict[Any, Course]], score: Score = "accuracy") -> RaceBest:
    judged = judge(runs, score)
    points = [
        BestPoint(
            step=step,
            samples=64 * step,
            sent_bytes=None,
            seconds=step / 10,
            score=value,
            low=value - 0.1,
            high=value,
        )
        for step, value in ((10, 0.5), (20, 0.75))
    ]
    condition = BestCondition(
        condition="",
        sentence=sentence(judged, names, score),
        criteria=[_criterion(one, names, score, None, running=False) for one in judged],
        curves=[
            BestCurve(member=number, name=name, rounds=3, points=points)
            for number, name in enumerate(names[: len(runs)])
        ],
        notes=["a note"],
    )
    return RaceBest(race_id="r", name="race", state="finished", score=score, seeds=3, conditions=[condition])


def test_a_table_says_of_each_plan_whether_it_is_behind() -> None:
    best = answer(NAMES, {**AHEAD, 2: AHEAD[0]})
    table = rows(best, best.conditions[0].criteria[3])
    assert [(name, said) for name, *_, said in table] == [
        ("p3", "best"), ("ring", "no difference from p3 seen"), ("async-sgd", "behind")
    ]  # fmt: skip
    assert table[0][1] == "80.00 %"
    assert table[2][3] == "10.00", "points"
    level = answer(NAMES, {0: AHEAD[0], 1: AHEAD[0]})
    assert [said for *_, said in rows(level, level.conditions[0].criteria[3])] == [
        "first", "no difference from p3 seen"
    ]  # fmt: skip
    found = {one.name: one for one in judge({**AHEAD, 2: AHEAD[0]}, "accuracy")}
    said = verdict(found["in_samples"], NAMES, "accuracy", running=False)
    assert said.startswith(
        "p3 and ring lead, and no difference from p3 is seen: async-sgd is behind by 10.00 points ("
    )
    few = answer(NAMES, {member: rounds(*list(own.values())[:2]) for member, own in AHEAD.items()})
    assert {said for *_, said in rows(few, few.conditions[0].criteria[3])} == {"-"}, (
        "two seeds are no verdict"
    )


def test_the_report_draws_every_axis_that_was_counted_and_takes_names_as_text() -> None:
    best = answer(("<b>p3</b>", "ddp", "ring"), AHEAD)
    page = "".join(best_report.parts(best))
    assert page.count("<svg") == 3, "steps, samples and seconds: nobody counted bytes"
    assert "<b>p3</b>" not in page
    assert "Best accuracy for a given time" in page
    assert "a note." in page
    curve = best.conditions[0].curves[0]
    counted = [point.model_copy(update={"sent_bytes": 1e6 * point.step}) for point in curve.points]
    assert "MB sent" in best_report.chart(
        best, [curve.model_copy(update={"points": counted})], *best_report.AXES[2]
    )
    nothing = best.conditions[0].model_copy(
        update={"curves": [one.model_copy(update={"points": []}) for one in best.conditions[0].curves]}
    )
    assert best_report.parts(best.model_copy(update={"conditions": [nothing]})) == []


def test_codecs_that_lose_nothing_are_no_reason() -> None:
    layers = [
        {"codec": "fp32"},
        {"codec": "threshold", "answers": "int8"},
        {"codec": "fp32", "answers": None},
    ]
    assert _codecs({"layers": layers}) == ("int8", "threshold")
    assert _codecs({"layers": layers[::2]}) == _codecs({"strategy": "ddp", "hook": None}) == ()


def test_evaluations_do_not_fall_on_the_steps_where_workers_meet() -> None:
    assert problems.steps_between(80, problems.PLANS) == 11
    assert problems.steps_between(100, problems.PLANS) == 13
    own = MemberSpec(strategy="parameter-averaging", options={"period": 11})
    assert problems.steps_between(80, [own]) == 13
    assert problems.steps_between(4, problems.PLANS) == 1


def test_a_job_without_scores_is_not_asked_about() -> None:
    for fields, words in (
        ({"fidelity": "rehearse"}, "a rehearsal learns nothing. Set fidelity: train"),
        (
            {"evaluation": {"every_epochs": None, "at_end": False}},
            "is never evaluated. Set evaluation.every_steps",
        ),
    ):
        with pytest.raises(UserError, match=words):
            problems.asked({**BASE, **fields})
