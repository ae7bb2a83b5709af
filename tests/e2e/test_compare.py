"""Compare: jobs are ticked in the list; their curves, their differences and their figures stand side by side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.e2e.complete import with_all_telemetry
from tests.e2e.drawn import said, traces, wait_until_drawn

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def trained(server: Any) -> list[str]:
    """Two jobs that differ in strategy and length, to their last telemetry."""
    ids = []
    with Client(server.url) as client:
        for name, steps in (("parameter-server", 6), ("p3", 8)):
            spec = job_spec(
                f"compared {name}", strategy={"name": name}, training={"steps": steps, "global_batch": 32}
            )
            job = client.wait(client.submit(spec).id, timeout_s=150)
            assert job.state == "succeeded", job.message
            with_all_telemetry(client, job.id)
            ids.append(job.id)
    return ids


def test_jobs_are_ticked_and_compared(page: Page, client: Client, trained: list[str]) -> None:
    page.goto("/jobs?text=compared")
    for job in trained:
        page.get_by_test_id(f"select-{job}").check()
    page.get_by_test_id("compare-selected").click()
    expect(page).to_have_url(re.compile(f"/compare\\?jobs={trained[0]},{trained[1]}"))

    losses = [client.metrics(job).series["loss"] for job in trained]
    for name, points in zip(("parameter-server", "p3"), losses, strict=True):
        drawn = wait_until_drawn(page, "figure-compare-loss", name, [point.value for point in points])
        assert drawn["x"] == [point.step for point in points]
    page.get_by_test_id("compare-by").get_by_text("Samples").click()
    expect(page).to_have_url(re.compile("by=samples"))
    wanted = client.compare(trained, what="loss", by="samples")
    assert said(wanted.data[0].x) == [32 * (point.step + 1) for point in losses[0]]
    page.wait_for_function(
        "wanted => document.querySelector('[data-testid=figure-compare-loss]')._fullData[0].x[1] === wanted",
        arg=64,
    )
    for by in ("bytes", "time"):
        page.goto(f"/compare?jobs={','.join(trained)}&by={by}")
        for what in ("loss", "accuracy", "throughput"):
            page.get_by_test_id(f"figure-compare-{what}").scroll_into_view_if_needed()
            wanted = client.compare(trained, what=what, by=by)
            for entry, figure in zip(traces(page, f"figure-compare-{what}"), wanted.data, strict=True):
                for axis in ("x", "y"):
                    assert entry[axis] == pytest.approx(said(figure[axis]), nan_ok=True)

    expect(page.get_by_test_id("setting-strategy.name")).to_contain_text("parameter-server")
    expect(page.get_by_test_id("setting-training.steps")).to_contain_text("8")
    expect(page.get_by_test_id("settings")).not_to_contain_text("global_batch")
    for job in trained:
        expect(page.get_by_test_id(f"side-{job}").get_by_test_id("figure-step-time")).to_be_visible()
    # One scale: both axes end where the slower one's bars do, or a little behind.
    slowest = max(whole_step_ms(client, job) for job in trained)
    page.wait_for_function(
        "slowest => { const ends = Array.from(document.querySelectorAll('[data-testid=figure-step-time]'),"
        " chart => chart._fullLayout?.xaxis.range[1]);"
        " return ends.length === 2 && ends[0] === ends[1] && Math.abs(ends[0] / slowest - 1.05) < 0.001; }",
        arg=slowest,
    )
    page.get_by_test_id("side-figure").click()
    page.get_by_role("option", name="Throughput").click()
    expect(page).to_have_url(re.compile("figure=throughput"))
    expect(page.get_by_test_id(f"side-{trained[0]}").get_by_test_id("figure-throughput")).to_be_visible()

    page.get_by_test_id(f"leave-out-{trained[0]}").click()
    expect(page).to_have_url(re.compile(f"jobs={trained[1]}&"))
    expect(page.get_by_test_id("settings-equal")).to_be_visible()


def whole_step_ms(client: Client, job: str) -> float:
    """How far the longest stacked bar of a job's step time reaches."""
    bars = [said(bar.x) for bar in client.figure(job, "step-time").data]
    return float(max(sum(parts) for parts in zip(*bars, strict=True)))


def test_a_comparison_fits_on_a_phone(page: Page, trained: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/compare?jobs={','.join(trained)}")
    expect(page.get_by_test_id("figure-compare-loss")).to_have_attribute("data-drawn", "true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_empty_comparison_says_where_jobs_are_chosen(page: Page) -> None:
    page.goto("/compare")
    page.get_by_test_id("compare-empty").get_by_role("link").click()
    expect(page).to_have_url(re.compile("/jobs$"))
