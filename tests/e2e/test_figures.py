"""Every chart of the page draws exactly what the API answers, and something of it; also a zoomed timeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.figures.registry import FIGURES
from tests.e2e.drawn import Answers, expect_drawn, window_of
from tests.e2e.recorded import STEPS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
LAST = STEPS["p3"] - 1
CLOSER = re.compile(r"/figures/timeline\?.*from_ns=")
CLOSER_RACE = re.compile(r"/api/v1/race\?.*from_ns=")
OVERVIEW = ("loss", "throughput", "step-time", "speed-up", "memory")
LINKS = ("utilization", "timeline", "heatmap")
STALENESS = ("drift", "staleness")


def test_every_figure_draws_the_apis_values(page: Page, recorded: list[str], drifting: str) -> None:
    assert {*OVERVIEW, *LINKS, *STALENESS} == set(FIGURES), "the page shows every figure that there is"
    answers = Answers(page)
    drawn = {}
    for address, names in (
        (f"/jobs/{recorded[1]}", OVERVIEW),
        (f"/jobs/{recorded[1]}?tab=links&step=5", LINKS),
        (f"/jobs/{drifting}?tab=staleness", STALENESS),
        (f"/race?jobs={','.join(recorded)}&step=5", ("race",)),
    ):
        page.goto(address)
        for name in names:
            drawn[name] = expect_drawn(page, name, answers)["data"]
            assert pictures(page) == 0, f"{name}: each live update's would be decoded and kept"
    assert page.locator(".modebar-btn").count() > 0
    assert page.locator("[data-title*=Share]").count() == 0, "plotly.js offers to upload the chart"
    # What the comparison looks at is there: bars that begin somewhere, maps of numbers.
    for name, kind, part in (
        ("timeline", "bar", "base"),
        ("race", "bar", "base"),
        ("heatmap", "heatmap", "z"),
    ):
        assert any(entry["type"] == kind and entry.get(part) is not None for entry in drawn[name])


def test_a_predicted_peak_is_drawn_beside_what_was_measured(page: Page, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[1]}")
    page.get_by_test_id("predict-peak").click()
    expect(page.get_by_test_id("panel-memory")).to_contain_text("at the most, in ")
    expect(page.get_by_test_id("figure-memory")).to_contain_text("predicted peak")


def test_a_stretch_of_the_timeline_is_looked_at_closely(page: Page, recorded: list[str]) -> None:
    answers = Answers(page)
    page.goto(f"/jobs/{recorded[1]}?tab=timeline&step=1&to_step={LAST}")
    far = expect_drawn(page, "timeline", answers)
    meta = far["layout"]["meta"]
    assert visible(page) == pytest.approx(far["layout"]["xaxis"]["range"])

    with page.expect_request(CLOSER):
        drag(page, 0.45, 0.51)
    expect(page).to_have_url(re.compile(rf"step=1&to_step={LAST}&from_ns=\d+&to_ns=\d+$"))
    window = window_of(page)
    whole = meta["to_ns"] - meta["from_ns"]
    assert window["from_ns"] - meta["from_ns"] == pytest.approx(0.45 * whole, abs=0.01 * whole)
    assert window["to_ns"] - window["from_ns"] == pytest.approx(0.06 * whole, rel=0.1)
    layout = expect_window_kept(page, "timeline", answers, CLOSER)
    assert (meta["level"], layout["meta"]["level"]) in {("outlines", "bars"), ("cells", "bars")}

    page.get_by_test_id("timeline-whole-step").click()
    expect(page).to_have_url(re.compile(rf"step=1&to_step={LAST}$"))
    expect_drawn(page, "timeline", lambda _: far)
    assert visible(page) == pytest.approx(far["layout"]["xaxis"]["range"])


def test_keys_look_closer_aside_and_back(page: Page, recorded: list[str]) -> None:
    answers = Answers(page)
    page.goto(f"/jobs/{recorded[1]}?tab=timeline&step=1")
    meta = expect_drawn(page, "timeline", answers)["layout"]["meta"]
    low, high = meta["from_ns"], meta["to_ns"]
    quarter = (high - low) / 4
    for key, wanted in (
        ("w", (low + quarter, high - quarter)),
        ("d", (low + 1.5 * quarter, high - 0.5 * quarter)),
        ("-", (low + 0.5 * quarter, high + 0.5 * quarter)),
        ("a", (low - 0.5 * quarter, high - 0.5 * quarter)),
    ):
        with page.expect_response(CLOSER):
            page.keyboard.press(key)
        shown = expect_drawn(page, "timeline", answers)["layout"]
        found = [shown["meta"][name] for name in ("from_ns", "to_ns")]
        assert found == pytest.approx([max(wanted[0], 0), wanted[1]], abs=10)
        assert visible(page) == pytest.approx(shown["xaxis"]["range"], abs=1e-6)


def test_jobs_that_have_run_are_not_shown_as_waiting_while_their_figure_comes(
    page: Page, recorded: list[str]
) -> None:
    """The figures of the first alone would be asked for and drawn, and be gone at once."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/race?jobs={','.join(recorded)}&step=5")
    expect(page.get_by_test_id("figure-race")).to_have_attribute("data-drawn", "true")
    assert [url for url in asked if "/api/v1/race?" in url]
    assert not [url for url in asked if "/figures/" in url]


def test_a_stretch_of_a_race_is_looked_at_closely(page: Page, recorded: list[str]) -> None:
    answers = Answers(page)
    jobs = ",".join(recorded)
    page.goto(f"/race?jobs={jobs}&step=5")
    whole = expect_drawn(page, "race", answers)["layout"]

    with page.expect_response(CLOSER_RACE):
        drag(page, 0.3, 0.5, "race")
    expect(page).to_have_url(re.compile(rf"jobs={jobs}&step=5&from_ns=\d+&to_ns=\d+$"))
    window = window_of(page)
    length = whole["meta"]["to_ns"] - whole["meta"]["from_ns"]
    assert window["to_ns"] - window["from_ns"] == pytest.approx(0.2 * length, rel=0.1)
    expect_window_kept(page, "race", answers, CLOSER_RACE)

    with page.expect_response(CLOSER_RACE):
        page.keyboard.press("w")
    closer = expect_drawn(page, "race", answers)["layout"]
    assert closer["meta"]["to_ns"] - closer["meta"]["from_ns"] == pytest.approx(0.1 * length, rel=0.1)
    assert visible(page, "race") == pytest.approx(closer["xaxis"]["range"], abs=1e-6)

    page.get_by_test_id("race-whole-step").click()
    expect(page).to_have_url(re.compile("step=5$"))
    expect_drawn(page, "race", answers)
    assert visible(page, "race") == pytest.approx(whole["xaxis"]["range"])

    # Another step is shown whole, and so is the newest.
    for key, address in (("ArrowLeft", "step=4$"), ("f", f"jobs={jobs}$")):
        with page.expect_response(CLOSER_RACE):
            page.keyboard.press("w")
        expect(page).to_have_url(re.compile("to_ns="))
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(address))


def expect_window_kept(page: Page, figure: str, answers: Answers, closer: re.Pattern[str]) -> dict[str, Any]:
    """The layout of the figure, which shows the address's stretch of time, also after the page was loaded again."""
    window = window_of(page)
    for look_again in (False, True):
        if look_again:
            with page.expect_response(closer):
                page.reload()
        layout: dict[str, Any] = expect_drawn(page, figure, answers)["layout"]
        assert {key: layout["meta"][key] for key in window} == window
        assert visible(page, figure) == pytest.approx(layout["xaxis"]["range"], abs=1e-6)
    return layout


def pictures(page: Page) -> int:
    """How many pictures the page's charts show."""
    found: int = page.locator(".ty-figure image").evaluate_all(
        "all => all.filter(one => one.getClientRects().length > 0).length"
    )
    return found


def visible(page: Page, name: str = "timeline") -> list[float]:
    """What a figure's time axis shows, in s."""
    found: list[float] = page.get_by_test_id(f"figure-{name}").evaluate(
        "chart => chart._fullLayout.xaxis.range"
    )
    return found


def drag(page: Page, start: float, end: float, name: str = "timeline") -> None:
    """Choose this stretch of a figure's width with the mouse."""
    chart = page.get_by_test_id(f"figure-{name}")
    box = chart.bounding_box()
    assert box is not None
    left, width, top = chart.evaluate(
        "({_fullLayout: {xaxis, yaxis}}) => [xaxis._offset, xaxis._length, yaxis._offset]"
    )
    y = box["y"] + top + 40
    page.mouse.move(box["x"] + left + start * width, y)
    page.mouse.down()
    page.mouse.move(box["x"] + left + end * width, y + 2, steps=6)
    page.mouse.up()
