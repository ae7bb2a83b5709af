"""Compare: jobs are ticked in the list; their curves, their differences and their figures stand side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.drawn import said, traces, wait_until_drawn
from tests.e2e.recorded import STEPS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_jobs_are_ticked_and_compared(page: Page, client: Client, recorded: list[str]) -> None:
    page.goto("/jobs?text=recorded")
    for job in recorded:
        page.get_by_test_id(f"select-{job}").check()
    page.get_by_test_id("compare-selected").click()
    expect(page).to_have_url(re.compile(f"/compare\\?jobs={recorded[0]},{recorded[1]}"))

    losses = [client.metrics(job).series["loss"] for job in recorded]
    for name, points in zip(STEPS, losses, strict=True):
        drawn = wait_until_drawn(page, "figure-compare-loss", name, [point.value for point in points])
        assert drawn["x"] == [point.step for point in points]
    page.get_by_test_id("compare-by").get_by_text("Samples").click()
    expect(page).to_have_url(re.compile("by=samples"))
    wanted = client.compare_figure(recorded, what="loss", by="samples")
    assert said(wanted.data[0].x) == [32 * (point.step + 1) for point in losses[0]]
    page.get_by_test_id(
        "figure-compare-loss"
    ).scroll_into_view_if_needed()  # what is out of sight is not asked for
    page.wait_for_function(
        "wanted => document.querySelector('[data-testid=figure-compare-loss]')._fullData[0].x[1] === wanted",
        arg=64,
    )
    for by in ("bytes", "time"):
        page.goto(f"/compare?jobs={','.join(recorded)}&by={by}")
        for what in ("loss", "accuracy", "throughput"):
            page.get_by_test_id(f"figure-compare-{what}").scroll_into_view_if_needed()
            wanted = client.compare_figure(recorded, what=what, by=by)
            for entry, figure in zip(traces(page, f"figure-compare-{what}"), wanted.data, strict=True):
                for axis in ("x", "y"):
                    assert entry[axis] == pytest.approx(said(figure[axis]), nan_ok=True)

    expect(page.get_by_test_id("setting-strategy.name")).to_contain_text("parameter-server")
    expect(page.get_by_test_id("setting-training.steps")).to_contain_text(str(STEPS["p3"]))
    expect(page.get_by_test_id("settings")).not_to_contain_text("global_batch")
    for job in recorded:
        expect(page.get_by_test_id(f"side-{job}").get_by_test_id("figure-step-time")).to_be_visible()
    # One scale: both axes end where the slower one's bars do, or a little behind.
    slowest = max(whole_step_ms(client, job) for job in recorded)
    page.wait_for_function(
        "slowest => { const ends = Array.from(document.querySelectorAll('[data-testid=figure-step-time]'),"
        " chart => chart._fullLayout?.xaxis.range[1]);"
        " return ends.length === 2 && ends[0] === ends[1] && Math.abs(ends[0] / slowest - 1.05) < 0.001; }",
        arg=slowest,
    )
    page.get_by_test_id("side-figure").click()
    page.get_by_role("option", name="Throughput").click()
    expect(page).to_have_url(re.compile("figure=throughput"))
    expect(page.get_by_test_id(f"side-{recorded[0]}").get_by_test_id("figure-throughput")).to_be_visible()

    page.get_by_test_id(f"leave-out-{recorded[0]}").click()
    expect(page).to_have_url(re.compile(f"jobs={recorded[1]}&"))
    expect(page.get_by_test_id("compare-alone")).to_contain_text("add a second job above")
    expect(page.get_by_test_id("settings")).to_be_hidden()


def whole_step_ms(client: Client, job: str) -> float:
    """How far the longest stacked bar of a job's step time reaches."""
    bars = [said(bar.x) for bar in client.figure(job, "step-time").data]
    return float(max(sum(parts) for parts in zip(*bars, strict=True)))


def test_jobs_are_ticked_where_nothing_is_compared_yet_and_numbers_come_first(
    page: Page, client: Client, recorded: list[str]
) -> None:
    page.goto("/compare")
    page.get_by_test_id("choose-text").fill("recorded")
    for job in recorded:
        page.get_by_test_id(f"tick-{job}").check()
    page.get_by_test_id("use-ticked").click()
    expect(page).to_have_url(re.compile(f"/compare\\?jobs={recorded[0]},{recorded[1]}$"))
    summary = client.summary(recorded[1], baseline=recorded[0])
    assert summary.speed_up is not None
    assert summary.speed_up.value is not None
    cells = page.get_by_test_id("number-speed-up").get_by_role("cell")
    expect(cells).to_have_text(["1", f"{summary.speed_up.value:.2f}x"])
    expect(page.get_by_test_id("number-iteration")).to_contain_text(f"{summary.iteration_ms:.2f} ms")
    if summary.speed_up.why_not:
        expect(page.get_by_test_id("caveat")).to_contain_text(summary.speed_up.why_not)
    page.get_by_test_id("compare-smooth").click()
    page.get_by_role("option", name="All smoothed over 20 %").click()
    expect(page).to_have_url(re.compile("smooth=20"))
    page.get_by_test_id("figure-compare-loss").scroll_into_view_if_needed()
    page.wait_for_function(
        "() => document.querySelector('[data-testid=figure-compare-loss]')?._fullLayout?.yaxis.title.text"
        ".endsWith('(smoothed over 20 %)')"
    )
    page.get_by_test_id(f"make-baseline-{recorded[1]}").click()
    expect(page).to_have_url(re.compile(f"jobs={recorded[1]},{recorded[0]}"))
