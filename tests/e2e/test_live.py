"""The pages change without being loaded again, survive the loss of the server, and can be addressed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.e2e.complete import with_all_telemetry

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
RUN_MS = 150_000


def test_an_empty_race_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with LiveServer(tmp_path, paused=True) as server:
        page = browser.new_page(base_url=server.url)
        page.goto("/")
        expect(page).to_have_url(re.compile("/race$"))
        expect(page.get_by_test_id("race-empty")).to_be_visible()
        with Client(server.url) as client:
            client.submit(job_spec("first to wait"))
        expect(page.get_by_test_id("race-waiting")).to_contain_text("first to wait")
        page.close()


def test_two_jobs_race_while_they_run(page: Page, client: Client) -> None:
    training = {"steps": 12, "global_batch": 32}
    first = client.submit(job_spec("slow lane", strategy={"name": "parameter-server"}, training=training))
    second = client.submit(job_spec("fast lane", baseline=first.id, training=training))
    ids = [first.id, second.id]
    page.goto(f"/race?jobs={','.join(ids)}")
    expect(page.get_by_test_id("race-waiting")).to_be_visible()
    expect(page.get_by_test_id("figure-race")).to_be_visible(timeout=RUN_MS)
    expect(page.get_by_test_id(f"race-row-{second.id}").get_by_test_id("state")).to_have_attribute(
        "data-state", "succeeded", timeout=RUN_MS
    )
    with_all_telemetry(client, second.id)
    race = client.race(ids)
    expect(page.get_by_test_id("headline")).to_have_text(race.headline)
    expect(page.get_by_test_id("step")).to_have_value(str(race.step))

    page.locator("body").press("ArrowLeft")
    expect(page.get_by_test_id("step")).to_have_value(str(race.steps.previous))
    expect(page).to_have_url(re.compile(rf"step={race.steps.previous}$"))
    expect(page.get_by_test_id("follow")).not_to_be_checked()
    page.locator("body").press("f")
    expect(page.get_by_test_id("step")).to_have_value(str(race.step))
    expect(page).not_to_have_url(re.compile("step="))


def test_jobs_are_found_selected_and_raced(page: Page, client: Client) -> None:
    jobs = [client.submit(job_spec(name, training=short())) for name in ("left one", "right one")]
    page.goto("/jobs")
    row = page.get_by_test_id(f"job-row-{jobs[1].id}")
    expect(row.get_by_test_id("state")).to_have_attribute("data-state", "succeeded", timeout=RUN_MS)
    page.get_by_test_id("filter-text").fill("left")
    expect(row).to_have_count(0)
    expect(page).to_have_url(re.compile("text=left"))
    page.get_by_test_id("filter-text").fill("")
    for job in jobs:
        page.get_by_test_id(f"select-{job.id}").check()
    page.get_by_test_id("race-selected").click()
    expect(page).to_have_url(re.compile(f"/race\\?jobs={jobs[0].id},{jobs[1].id}"))


def test_a_running_job_is_cancelled_from_its_page(page: Page, client: Client) -> None:
    job = client.submit(job_spec("too long", training={"steps": 100_000, "global_batch": 32}))
    page.goto(f"/jobs/{job.id}")
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "running", timeout=RUN_MS)
    page.get_by_test_id("cancel").click()
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "cancelled", timeout=RUN_MS)
    expect(page.get_by_test_id("why")).not_to_be_empty()
    expect(page.get_by_test_id("cancel")).to_have_count(0)


def test_the_page_says_when_it_lost_the_server_and_catches_up(browser: Browser, tmp_path: Path) -> None:
    with LiveServer(tmp_path, paused=True) as server:
        page = browser.new_page(base_url=server.url)
        page.goto("/jobs")
        connection = page.get_by_test_id("connection")
        expect(connection).to_have_attribute("data-state", "live")
        port = int(server.url.rpartition(":")[2])
        server.stop()
        expect(connection).to_have_attribute("data-state", "lost")
    with LiveServer(tmp_path, paused=True, port=port) as server, Client(server.url) as client:
        client.submit(job_spec("while it was away"))
        expect(connection).to_have_attribute("data-state", "live", timeout=30_000)
        expect(page.get_by_text("while it was away")).to_be_visible()
    page.close()


def test_light_and_dark(page: Page) -> None:
    page.goto("/jobs")
    html = page.locator("html")
    expect(html).to_have_attribute("data-mantine-color-scheme", "light")
    page.get_by_test_id("theme-toggle").click()
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")
    page.reload()
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")


def short() -> dict[str, Any]:
    return {"steps": 4, "global_batch": 32}
