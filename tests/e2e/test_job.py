"""The page of one job: its attempts, its events, its raw plan, and a speed-up against whichever job is chosen."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.e2e.complete import with_all_telemetry
from tests.e2e.drawn import said, traces

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def trained(server: Any) -> list[str]:
    """Two jobs without a baseline, to their last telemetry."""
    ids = []
    with Client(server.url) as client:
        for name in ("parameter-server", "p3"):
            spec = job_spec(f"job {name}", strategy={"name": name}, training={"steps": 8, "global_batch": 32})
            job = client.wait(client.submit(spec).id, timeout_s=150)
            assert job.state == "succeeded", job.message
            with_all_telemetry(client, job.id)
            ids.append(job.id)
    return ids


def test_every_figure_of_the_overview_draws_the_apis_values(
    page: Page, client: Client, trained: list[str]
) -> None:
    page.goto(f"/jobs/{trained[1]}?baseline={trained[0]}")
    for name in ("loss", "throughput", "step-time", "speed-up", "memory"):
        page.get_by_test_id(f"figure-{name}").scroll_into_view_if_needed()
        wanted = client.figure(trained[1], name, baseline=trained[0]).data
        for entry, trace in zip(traces(page, f"figure-{name}"), wanted, strict=True):
            for axis in ("x", "y"):
                values = said(trace[axis])
                if not any(
                    isinstance(value, str) for value in values
                ):  # names are shorter where there is less room
                    assert entry[axis] == pytest.approx(values, nan_ok=True)


def test_the_speed_up_is_against_the_job_that_is_chosen(
    page: Page, client: Client, trained: list[str]
) -> None:
    page.goto(f"/jobs/{trained[1]}")
    figure = page.get_by_test_id("figure-speed-up")
    expect(figure).to_have_attribute("aria-label", re.compile("no baseline"))
    page.get_by_test_id("baseline-choice").click()
    page.get_by_role("option", name=re.compile("job parameter-server")).click()
    expect(page).to_have_url(re.compile(f"baseline={trained[0]}"))
    wanted = client.figure(trained[1], "speed-up", baseline=trained[0]).layout.meta["alt"]
    expect(figure).to_have_attribute("aria-label", f"Speed-up: {wanted}")
    value = client.summary(trained[1], baseline=trained[0]).speed_up
    assert value is not None
    shown = "–" if value.value is None else f"{value.value:.2f}×"
    expect(page.get_by_test_id("value-speed-up")).to_have_text(shown)


def test_attempts_events_and_the_raw_plan(page: Page, client: Client, trained: list[str]) -> None:
    job = client.job(trained[0])
    page.goto(f"/jobs/{job.id}?tab=attempts")
    expect(page.get_by_test_id("attempts")).to_contain_text(f"worker 0 on {job.attempts[0].devices[0]}")
    expect(page.get_by_test_id("history").get_by_role("row")).to_have_count(len(job.history))
    page.get_by_test_id("tab-spec").click()
    expect(page.get_by_test_id("raw-plan")).to_contain_text('"exchange": "parameter-server"')

    page.goto(f"/jobs/{job.id}?tab=events&step=3")
    events = client.events(job.id, step_from=3, step_to=3)
    expect(page.get_by_test_id("events-count")).to_contain_text(f"{len(events.kind):,} events")
    rows = page.get_by_test_id("events").locator("tbody tr")
    expect(rows).to_have_count(min(len(events.kind), 300))
    expect(rows.first).to_contain_text(events.kind[0].replace("_", " "))
    page.get_by_test_id("step").fill("2")
    page.get_by_test_id("step").press("Enter")
    expect(page).to_have_url(re.compile("step=2"))


def test_the_next_steps_of_a_running_job_are_recorded(page: Page, client: Client) -> None:
    job = client.submit(job_spec("recorded", training={"steps": 100_000, "global_batch": 32}))
    page.goto(f"/jobs/{job.id}?tab=timeline")
    page.get_by_test_id("record").click()
    notice = page.get_by_text(re.compile(r"Every event of steps \d+ to \d+"))
    expect(notice).to_be_visible()
    first, last = map(int, re.findall(r"\d+", notice.inner_text()))
    assert last - first == 19
    client.cancel(job.id)
    expect(page.get_by_test_id("record")).to_have_count(0)


def test_several_steps_are_chosen(page: Page, client: Client, trained: list[str]) -> None:
    page.goto(f"/jobs/{trained[0]}?tab=timeline&step=2")
    field = page.get_by_test_id("to-step")
    field.fill("4")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"step=2&to_step=4$"))
    wanted = client.figure(trained[0], "timeline", step=2, to_step=4).layout.xaxis.range
    page.wait_for_function(
        "wanted => document.querySelector('[data-testid=figure-timeline]')._fullLayout.xaxis.range"
        ".every((edge, i) => Math.abs(edge - wanted[i]) < 1e-6)",
        arg=list(wanted),
    )
    with page.expect_download() as exported:
        page.get_by_test_id("trace").click()
    events = json.loads(exported.value.path().read_text())["traceEvents"]
    steps = {event["args"]["step"] for event in events if "step" in event.get("args", {})}
    assert steps == {2, 3, 4}
