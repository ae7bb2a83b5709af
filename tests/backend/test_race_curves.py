"""What a race's rankings lead to: crossings, the figure of throughput, and what to try next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backend.figures.base import Labels
from backend.figures.intervals import Line
from backend.figures.race_throughput import CUT, CUT_BELOW, HOW_TO_SEE, Curves, race_throughput
from backend.figures.registry import RACE_FIGURES, race_figure
from backend.figures.request import THEMES, FigureRequest
from backend.races.ranking import around
from backend.races.spec import RaceSpec
from backend.schemas.races import Condition, Limit, Ranking, Standing, Suggestion
from backend.schemas.telemetry import Processors
from backend.services.crossings import crossings
from backend.services.curves import curves
from backend.services.errors import Conflict
from backend.services.race_drawing import lines_of
from backend.services.suggestions import LargestLayer, suggestions
from engine.errors import UnknownNameError
from engine.plan.serde import from_plain
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.test_race_pure import race

BARE = (None, None)

PORT = Limit(kind="port", sentence="port: 94 %", crowded=False)
FULL = Limit(kind="processors", sentence="processors: 97 %", crowded=False)
FC6 = LargestLayer(name="fc6", share=0.72, fully_connected=True)


def standing(member: int, name: str, ms: float | None, first: float, **fields: Any) -> Standing:
    """Of a member that takes so many ms, where the fastest takes `first`."""
    rate = None if ms is None else 64e3 / ms
    values: dict[str, Any] = {
        "member": member, "name": name, "rank": None if ms is None else 1 if ms == first else 2, "iteration_ms": ms,
        "samples_per_s": rate, "samples_low": rate and 0.9 * rate, "samples_high": rate and 1.1 * rate,
        "exposed_ms": None, "times_fastest": ms and ms / first, "low": None, "high": None,
        "significant": ms is not None and ms > first, "rounds": 3, "processors": None, "port_busy": None,
        "one_port_busy": None,
        "limit": None, "out": None, "remark": None, "joined_s": None, "job_ids": [],
    }  # fmt: skip
    return Standing(**{**values, **fields})


def ranking(condition: dict[str, Any], times: dict[str, float | None], **fields: Any) -> Ranking:
    first = min(ms for ms in times.values() if ms is not None)
    standings = [
        standing(number, name, ms, first, **fields) for number, (name, ms) in enumerate(times.items())
    ]
    standings.sort(key=lambda one: (one.iteration_ms is None, one.iteration_ms))
    said = ", ".join(map(str, condition.values()))
    whole = {"rate": None, "workers": None, "batch": None, **condition}
    return Ranking(condition=said, sentence="", standings=standings, **whole)


MEET = "ddp catches up with p3 between 100 Mbit/s and 1 Gbit/s, at about 320 Mbit/s"
RATES = ("100Mbit", "1Gbit", "10Gbit")
CROSSING = [
    ranking({"rate": "1Gbit"}, {"p3": 20.0, "ddp": 10.0}),
    ranking({"rate": "100Mbit"}, {"p3": 50.0, "ddp": 100.0}),
    ranking({"rate": "10Gbit"}, {"p3": 20.0, "ddp": 9.0}),
]


def drawn(spec: RaceSpec, rankings: list[Ranking]) -> Curves:
    return curves("the-race", spec, rankings, crossings(spec, rankings))


def test_lines_cross_where_the_order_changes_for_certain() -> None:
    spec = race("p3", "ddp", rates=RATES)
    (found,) = crossings(spec, CROSSING)
    assert found.text == MEET
    assert found.rate_bps == pytest.approx(10**8.5)
    assert (found.ahead, found.later, found.between) == (0, 1, (1e8, 1e9))
    unsure = [ranking({"rate": "1Gbit"}, {"p3": 20.0, "ddp": 10.0}, significant=False), *CROSSING[1:]]
    (later,) = crossings(spec, unsure)
    assert later.between == (1e8, 1e10), "at 1 Gbit/s nobody can tell who is faster"
    assert "between 100 Mbit/s and 10 Gbit/s" in later.text, "so the sentence claims no less room"
    chance = [*CROSSING[:1], ranking({"rate": "100Mbit"}, {"p3": 50.0, "ddp": 100.0}, significant=False)]
    assert crossings(race("p3", "ddp", rates=RATES[:2]), chance) == [], "the order below may be chance"


def test_a_point_without_an_interval_is_not_one_whose_interval_has_no_length() -> None:
    usual = drawn(race("p3", "ddp", rates=RATES), CROSSING)
    first, *others = usual.lines
    ends = (None, *first.y[1:])
    line = replace(first, low=ends, high=ends)
    content = answer(race_throughput(replace(usual, lines=(line, *others)), FigureRequest()))
    for side in ("array", "arrayminus"):
        reach = column(traces(content, "scatter")[0]["error_y"][side])
        assert np.isnan(reach[0])
        assert reach[1:].tolist() == [0, 0]


def test_the_line_of_who_joined_later_says_so() -> None:
    late = [ranking({"rate": rate}, {"p3": 20.0, "ddp": 10.0}) for rate in RATES]
    for one in late:
        one.standings[0] = one.standings[0].model_copy(update={"joined_s": 60.0})
    assert [line.name for line in drawn(race("p3", "ddp", rates=RATES), late).lines] == [
        "p3",
        "ddp (joined later)",
    ]
    assert [line.name for line in lines_of(late)] == ["p3", "ddp (joined later)"]


def test_nothing_is_certain_of_two_members_that_are_only_compared_with_the_fastest() -> None:
    """`level` may be as fast as `p3`, `ddp` is slower than `p3`: who of the two others is faster, nobody has shown."""
    spec = race("p3", "parameter-server", "ddp", rates=RATES[:2])
    rankings = [
        ranking({"rate": rate}, {"p3": 10.0, "parameter-server": level, "ddp": 12.0})
        for rate, level in (("100Mbit", 11.0), ("1Gbit", 13.0))
    ]
    for one in rankings:
        level = next(place for place, each in enumerate(one.standings) if each.member == 1)
        one.standings[level] = one.standings[level].model_copy(update={"significant": False, "rank": 1})
    assert crossings(spec, rankings) == []


def test_a_line_is_a_member_with_its_intervals_over_a_logarithmic_rate() -> None:
    spec = race("p3", "ddp", rates=RATES)
    content = answer(race_throughput(drawn(spec, CROSSING), FigureRequest()))
    p3, ddp, mark = traces(content, "scatter")
    assert (p3["name"], ddp["name"], mark["name"]) == ("p3", "ddp", "crossing")
    assert column(p3["x"]).tolist() == [1e8, 1e9, 1e10]
    assert column(p3["y"]).tolist() == [1280.0, 3200.0, 3200.0]
    assert column(p3["error_y"]["array"]) == pytest.approx([128, 320, 320])
    assert column(p3["error_y"]["arrayminus"]) == pytest.approx([128, 320, 320])
    assert column(mark["x"]) == pytest.approx([10**8.5])
    assert column(mark["y"]) == pytest.approx([np.sqrt(1280.0 * 3200.0)])
    layout = content["layout"]
    assert (layout["xaxis"]["type"], layout["meta"]["axis"]) == ("log", "rate")
    assert layout["xaxis"]["ticktext"] == ["100 Mbit/s", "1 Gbit/s", "10 Gbit/s"]
    assert layout["xaxis"]["ticksuffix"] == "bit/s", "files write the numbers, and need their unit"
    assert layout["meta"]["crossings"] == [MEET]
    assert "p3: 1280 samples/s (1152 to 1408) at 100 Mbit/s" in layout["meta"]["alt"]


@pytest.mark.parametrize("theme", THEMES)
def test_workers_or_batches_take_the_place_of_the_rate(theme: Any) -> None:
    spec = race("p3", "ddp", workers=[2, 4], batches=[32, 64])
    rankings = [
        ranking({"workers": workers, "batch": batch}, {"p3": 10.0 * workers, "ddp": None})
        for workers in (2, 4)
        for batch in (32, 64)
    ]
    found = drawn(spec, rankings)
    assert (found.axis, found.marks) == ("workers", ())
    content = answer(race_throughput(found, FigureRequest(theme=theme, width=400)))
    assert [trace["name"] for trace in traces(content, "scatter")] == ["p3, batch 32", "p3, batch 64"]
    assert content["layout"]["xaxis"]["ticktext"] == ["2 workers", "4 workers"]


def test_a_race_with_one_condition_has_no_curve_and_one_without_figures_says_so() -> None:
    with pytest.raises(Conflict, match=r"has one condition.*rates"):
        drawn(race("p3", "ddp", rates=["1Gbit"]), CROSSING[:1])
    spec = race("p3", rates=["100Mbit", "1Gbit"])
    waiting = [standing(0, "p3", None, 1.0)]
    rankings = [
        Ranking(condition=rate, rate=rate, workers=None, batch=None, sentence="", standings=waiting)
        for rate in spec.rates
    ]
    content = answer(race_throughput(drawn(spec, rankings), FigureRequest()))
    assert "No member has figures: no job of this race has succeeded" in notes(content)
    waited_for = answer(race_throughput(replace(drawn(spec, rankings), goes_on=True), FigureRequest()))
    assert "No member has figures yet: no job of this race has succeeded yet" in notes(waited_for)


def test_a_very_wide_interval_is_cut_with_a_word_and_the_points_keep_their_room() -> None:
    usual = drawn(race("p3", "ddp", rates=RATES), CROSSING)
    highest = max(y for line in usual.lines for y in line.y)
    layout = answer(race_throughput(usual, FigureRequest()))["layout"]
    assert 10 ** layout["yaxis"]["range"][1] == pytest.approx(1.1 * 1.1 * highest)
    least = min(low for line in usual.lines for low in line.low if low is not None)
    assert 10 ** layout["yaxis"]["range"][0] == pytest.approx(least / 1.1), "none is cut below"
    assert HOW_TO_SEE not in layout["meta"]["alt"]
    first, *others = usual.lines
    wide = replace(first, low=(0.0,) * 3, high=(40 * highest,) * 3)
    content = answer(race_throughput(replace(usual, lines=(wide, *others)), FigureRequest()))
    assert highest < 10 ** content["layout"]["yaxis"]["range"][1] < 2 * highest
    said = f"{CUT}; {CUT_BELOW}: {HOW_TO_SEE}"
    assert said in notes(content)
    assert said in content["layout"]["meta"]["alt"]
    lowest = min(y for line in usual.lines for y in line.y)
    assert 10 ** content["layout"]["yaxis"]["range"][0] == pytest.approx(lowest / 1.5 / 1.1)
    (drawn_wide,) = [trace for trace in traces(content, "scatter") if trace["name"] == first.name]
    assert max(column(drawn_wide["error_y"]["array"])) > 30 * highest, (
        "the whole interval, for who points or takes"
    )


def test_a_rehearsal_says_that_it_is_one() -> None:
    found = replace(
        drawn(race("p3", "ddp", rates=RATES), CROSSING), labels=Labels(rehearsed="rehearsed: P4000")
    )
    assert (
        answer(race_throughput(found, FigureRequest()))["layout"]["meta"]["rehearsed"] == "rehearsed: P4000"
    )


def test_the_catalogue_of_a_races_figures() -> None:
    assert all(race_figure(name) is figure for name, figure in RACE_FIGURES.items())
    with pytest.raises(UnknownNameError, match="throughput"):
        race_figure("troughput")


def test_a_members_interval_is_over_its_rounds() -> None:
    low, high = around([98.0, 100.0, 102.0]) or (0.0, 0.0)
    assert 94 < low < 98
    assert 102 < high < 106
    assert around([98.0, 102.0]) is None


# --- what to try next ---


def next_of(
    spec: RaceSpec, rankings: list[Ranking], largest: LargestLayer | None = None, *, ended: bool = True
) -> list[Suggestion]:
    return suggestions(spec, rankings, crossings(spec, rankings), largest, ended=ended)


ONE = {"parameter-server": 20.0, "ddp": 10.0}


def test_p3_is_suggested_where_a_large_layer_is_waited_behind() -> None:
    spec = race("parameter-server", "ddp")
    waits = [ranking({}, ONE, limit=PORT)]
    (found,) = next_of(spec, waits, FC6)
    assert found.text == "Race again with p3", "in the race that has ended it would run by itself"
    (found,) = next_of(spec, waits, FC6, ended=False)
    assert found.text == "Let p3 race"
    assert "fc6 holds 72 % of the model's bytes" in found.reason
    assert found.member is not None
    assert found.member.strategy == "p3"
    joined = race("parameter-server", "ddp", found.member.strategy)
    assert [member.strategy for member in joined.members][-1] == "p3", "a button can post it"
    assert next_of(spec, waits, replace(FC6, share=0.2)) == []
    assert next_of(spec, waits, None) == []
    computes = [ranking({}, ONE, limit=Limit(kind="compute", sentence="compute", crowded=False))]
    assert next_of(spec, computes, FC6) == []


def test_factors_are_suggested_where_p3_has_raced() -> None:
    spec, waits = race("p3", "ddp"), [ranking({}, {"p3": 10.0, "ddp": 20.0}, limit=PORT)]
    (found,) = next_of(spec, waits, FC6)
    assert found.member is not None
    assert found.member.strategy == "p3+late-multiply"
    assert next_of(spec, waits, replace(FC6, fully_connected=False)) == []
    both = race("p3", "p3+late-multiply")
    assert next_of(both, [ranking({}, {"p3": 20.0, "p3+late-multiply": 10.0}, limit=PORT)], FC6) == []


def busy(standing: Standing) -> Standing:
    return standing.model_copy(update={"processors": Processors(busy=0.97, own=0.2)})


def test_a_rehearsal_is_suggested_where_processors_limit() -> None:
    spec = race("p3", "ddp")
    full = [ranking({}, {"p3": 10.0, "ddp": 20.0}, limit=FULL)]
    (found,) = next_of(spec, full)
    assert (found.fidelity, "97 %" in found.reason) == ("rehearse", True)
    job = from_plain(RaceSpec, {"job": {"name": "r", "model": {"name": "mlp"}, "data": {"name": "digits"},
        "training": {"steps": 9}, "fidelity": "rehearse"}, "members": [{"strategy": "p3"}]})  # fmt: skip
    assert next_of(job, full) == []
    crowded = [ranking({}, {"p3": 10.0, "ddp": 20.0}, limit=FULL.model_copy(update={"crowded": True}))]
    crowded[0] = crowded[0].model_copy(update={"standings": [busy(one) for one in crowded[0].standings]})
    for each in (spec, job):
        (found,) = next_of(each, crowded)
        assert (found.text, found.rounds) == ("Race again while nothing else runs here", 4)


def test_more_rounds_are_suggested_where_a_difference_may_be_chance() -> None:
    spec = race("p3", "ddp")
    close = [ranking({}, {"p3": 10.0, "ddp": 10.5}, significant=False)]
    (found,) = next_of(spec, close)
    assert (found.rounds, found.reason) == (
        8, "p3 is 1.05x as fast as ddp, which may be chance after 3 rounds",
    )  # fmt: skip
    assert next_of(spec, close, ended=False) == []
    few = [ranking({}, {"p3": 10.0, "ddp": 10.5}, significant=False, unsure=True, missing=4)]
    assert next_of(spec, few)[0].rounds == 7, "as many as the headline names"
    never = [ranking({}, {"p3": 10.0, "ddp": 10.5}, significant=False, unsure=True, missing=None)]
    assert next_of(spec, never) == [], "no race has so many"
    (first, second) = few[0].standings
    for missing, rounds in ((20, 23), (48, None)):
        third = second.model_copy(update={"member": 2, "name": "ring", "missing": missing})
        found_for = next_of(spec, [few[0].model_copy(update={"standings": [first, second, third]})])
        assert [one.rounds for one in found_for] == [rounds] * (rounds is not None), (
            "until all are told apart"
        )
    for rounds in (1, 2):
        (enough,) = next_of(race("p3", "ddp", rounds=rounds), close)
        assert enough.rounds == 3, "fewer prove nothing, and the headline names as many"
    assert next_of(spec, [ranking({}, {"p3": 10.0, "ddp": 10.05}, significant=False)]) == []


def test_two_workers_are_suggested_where_one_has_nobody_to_talk_to() -> None:
    alone = race("p3", "ddp", workers=[1], rates=["100Mbit"])
    close = {"p3": 10.0, "ddp": 10.5}
    condition = {"rate": "100Mbit", "workers": 1}
    (found,) = next_of(alone, [ranking(condition, close, significant=False, port_busy=0.0)])
    assert (found.text, found.condition) == ("Race with 2 workers", Condition(rate="100Mbit", workers=2))
    (more,) = next_of(alone, [ranking(condition, close, significant=False, port_busy=0.5)])
    assert more.rounds, "a server of its own is somebody to talk to"
    (more,) = next_of(race("p3", "ddp", workers=[2]), [ranking({"workers": 2}, close, significant=False)])
    assert more.rounds


def test_another_rate_is_suggested_where_curves_cross_or_the_port_still_limits() -> None:
    spec = race("p3", "ddp", rates=RATES)
    (found,) = next_of(spec, CROSSING)
    assert found.condition is not None
    assert found.condition.rate == "320Mbit"
    assert race("p3", rates=[found.condition.rate]).rates == ("320Mbit",), "it can be raced"
    ahead = [ranking({"rate": rate}, {"p3": 10.0, "ddp": 20.0}, limit=PORT) for rate in ("100Mbit", "1Gbit")]
    (higher,) = next_of(race("p3", "ddp", rates=["100Mbit", "1Gbit"]), ahead)
    assert higher.condition is not None
    assert (higher.condition.rate, "at 1Gbit, the highest rate" in higher.reason) == ("4Gbit", True)


def test_no_rate_is_suggested_at_which_they_have_raced() -> None:
    """Nobody can tell at 320 Mbit/s, and the lines cross there."""
    unsure = ranking({"rate": "0.32Gbit"}, {"p3": 20.0, "ddp": 20.1}, significant=False)
    rates = ("100Mbit", "0.32Gbit", "1Gbit")
    spec, rankings = race("p3", "ddp", rates=rates), [*CROSSING[:2], unsure]
    assert [one.text for one in crossings(spec, rankings)] == [MEET]
    assert next_of(spec, rankings) == []


def test_no_rate_is_suggested_while_a_higher_one_has_no_figures_yet() -> None:
    """At 400 Mbit/s, four times the rate that has some."""
    ahead = ranking({"rate": "100Mbit"}, {"p3": 10.0, "ddp": 20.0}, limit=PORT)
    top = ahead.model_copy(update={"rate": "400Mbit", "condition": "400Mbit"})
    waiting = top.model_copy(
        update={"standings": [standing(0, "p3", None, 1.0), standing(1, "ddp", None, 1.0)]}
    )
    spec = race("p3", "ddp", rates=["100Mbit", "400Mbit"])
    assert next_of(spec, [ahead, waiting]) == []
    (found,) = next_of(spec, [ahead, top])
    assert found.text == "Race at 1.6 Gbit/s"


def test_there_are_at_most_three_and_none_without_figures() -> None:
    spec = race("parameter-server", "ddp", rates=["100Mbit", "1Gbit"])
    everything = [
        ranking({"rate": "100Mbit"}, {"parameter-server": 10.0, "ddp": 20.0}, limit=PORT),
        ranking({"rate": "1Gbit"}, {"parameter-server": 20.0, "ddp": 10.0}, limit=PORT),
    ]
    slow = everything[0].standings[1].model_copy(update={"limit": FULL, "significant": False})
    everything[0] = everything[0].model_copy(update={"standings": [everything[0].standings[0], slow]})
    found = next_of(spec, everything, FC6)
    assert len(found) == 3
    assert [one.text for one in found] == [
        "Race again with p3", "Rehearse it: computation is waited for", "Race again in 8 rounds at 100Mbit",
    ]  # fmt: skip
    assert (
        next_of(spec, [everything[0].model_copy(update={"standings": [standing(0, "ddp", None, 1.0)]})]) == []
    )


def test_where_the_slowest_would_lie_on_one_another_the_axis_is_logarithmic() -> None:
    def axis(fast: float) -> Any:
        line = Line(member=0, group=0, name="p3", x=(1e8, 1e9), y=(100.0, fast), low=BARE, high=BARE)
        drawn = race_throughput(Curves(race_id="r", axis="rate", lines=(line,)), FigureRequest())
        return drawn.layout.yaxis

    assert axis(400.0).range == pytest.approx((0, 420))
    assert axis(2_000.0).type == "log"
    low, high = axis(2_000.0).range
    assert low < 2
    assert high > np.log10(2_000)
