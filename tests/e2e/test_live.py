"""The pages change without being loaded again, survive the loss of the server, and can be addressed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from backend.db import Database
from backend.ingest.accept import accept
from backend.services.benchmark_fill import Large, add_large, worker_step
from engine.telemetry.batch import decode, encode
from tests.backend.held_jobs import NEVER, held_spec, let_go
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.databases import opened_by
from tests.e2e.complete import with_all_telemetry
from tests.e2e.conftest import new_context
from tests.e2e.drawn import said
from tests.e2e.tabs import show

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser
RUN_MS = 150_000
LAST_STEP = "() => document.querySelector('[data-testid=figure-loss]')._fullData[0].x.at(-1)"


def test_an_empty_race_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, warm_jobs=True) as server:
        page = new_context(browser, server.url).new_page()
        page.goto("/race")
        expect(page.get_by_test_id("race-empty")).to_be_visible()
        with Client(server.url) as client:
            client.submit(job_spec("first to wait"))
        expect(page.get_by_test_id("choose-jobs")).to_contain_text("first to wait")
        page.context.close()


@pytest.fixture(scope="module")
def queued(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Large]]]:
    """A server's address, where two races of two run behind a queue of more jobs than a page asks for."""
    directory = tmp_path_factory.mktemp("queued")
    (directory / "cache").symlink_to(server.data_dir / "cache")
    database = Database(opened_by(directory))
    jobs: list[Large] = []
    for number in range(4):
        baseline = jobs[-1].job_id if number % 2 else None
        jobs.append(add_large(database, 20, 2_000, baseline=baseline))
    incomplete = decode(worker_step(jobs[3], 0, jobs[3].steps, jobs[3].steps))
    dropped = encode(replace(incomplete, dropped=7, dropped_steps=(3, 5)))
    accept(database, jobs[3].attempt, jobs[3].token, dropped)
    database.close()
    with LiveServer(directory, scheduler=False, warm_jobs=True) as running:
        with Client(running.url) as client:
            for number in range(101):
                client.submit(job_spec(f"waits {number}"))
        yield running.url, jobs


def test_step_by_step_asks_which_jobs_and_knows_those_behind_a_long_queue(
    browser: Browser, queued: tuple[str, list[Large]]
) -> None:
    """Nobody asked for anything yet: nothing is said of anybody."""
    url, jobs = queued
    page = new_context(browser, url).new_page()
    page.goto("/race")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs step by step")
    groups = page.get_by_test_id("groups").get_by_role("button")
    expect(groups).to_have_count(3)  # the last: those that wait
    expect(page.get_by_test_id("headline")).to_have_count(0)
    ticks = page.get_by_test_id("choose-jobs").get_by_role("checkbox")
    go = page.get_by_test_id("use-ticked")
    ticks.nth(0).check()
    expect(go).to_be_disabled()  # one job alone is not compared
    ticks.nth(1).check()
    expect(go).to_have_text("2 jobs step by step")
    go.click()
    expect(page).to_have_url(re.compile(r"/race\?jobs=[^,]+,[^,]+$"))
    expect(page.get_by_test_id("headline")).to_have_text(
        "2 jobs are on the way: drawn from the first step on"
    )
    page.go_back()
    groups.nth(1).click()
    rows = [page.get_by_test_id(f"race-row-{job.job_id}") for job in jobs]
    for row in rows[2:]:
        expect(row).to_be_visible()
    expect(page.get_by_test_id("figure-race")).to_be_visible()
    page.get_by_test_id("race-choice").locator("label").first.click()
    expect(page).to_have_url(re.compile(f"jobs={jobs[0].job_id},{jobs[1].job_id}$"))
    for row, count in zip(rows, (1, 1, 0, 0), strict=True):
        expect(row).to_have_count(count)
    page.context.close()


def test_a_job_says_which_detail_is_missing(browser: Browser, queued: tuple[str, list[Large]]) -> None:
    url, jobs = queued
    with Client(url) as client:
        (gap,) = client.job(jobs[3].job_id).attempts[-1].dropped
    page = new_context(browser, url).new_page()
    page.goto(f"/jobs/{jobs[3].job_id}")
    expect(page.get_by_test_id("dropped")).to_contain_text(gap.text)
    assert "steps 3 to 5" in gap.text
    page.context.close()


def test_two_jobs_race_while_they_run(page: Page, client: Client) -> None:
    training = {"steps": 12, "global_batch": 32}
    ahead = client.submit(held_spec("has the devices"))
    first = client.submit(job_spec("slow lane", strategy={"name": "parameter-server"}, training=training))
    second = client.submit(job_spec("fast lane", baseline=first.id, training=training))
    ids = [first.id, second.id]
    page.goto(f"/race?jobs={','.join(ids)}")
    expect(page.get_by_test_id("race-waiting")).to_be_visible()
    client.cancel(ahead.id)
    expect(page.get_by_test_id("figure-race")).to_be_visible(timeout=RUN_MS)
    expect(page.get_by_test_id(f"race-row-{second.id}").get_by_test_id("state")).to_have_attribute(
        "data-state", "succeeded", timeout=RUN_MS
    )
    with_all_telemetry(client, second.id)
    race = client.same_step(ids)
    expect(page.get_by_test_id("headline")).to_have_text(race.headline)
    expect(page.get_by_test_id("step")).to_have_value(str(race.step))

    page.locator("body").press("ArrowLeft")
    expect(page.get_by_test_id("step")).to_have_value(str(race.steps.previous))
    expect(page).to_have_url(re.compile(rf"step={race.steps.previous}$"))
    expect(page.get_by_test_id("follow")).not_to_be_checked()
    page.locator("body").press("f")
    expect(page.get_by_test_id("step")).to_have_value(str(race.step))
    expect(page).not_to_have_url(re.compile("step="))

    # A switch has no use for arrow keys: they step also after it was clicked.
    page.get_by_test_id("follow").click()
    expect(page).to_have_url(re.compile(rf"step={race.step}$"))
    assert page.evaluate("document.activeElement.dataset.testid") == "follow"
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(rf"step={race.steps.previous}$"))

    # What is half typed is no step; beyond the last one is the last one.
    visited: list[str] = []
    page.on("framenavigated", lambda frame: visited.append(frame.url))
    field = page.get_by_test_id("step")
    field.fill("")
    field.press_sequentially("99999")
    field.press("ArrowLeft")
    field.press("Enter")
    expect(field).to_have_value(str(race.steps.max))
    assert len(visited) == 1
    assert visited[0].endswith(f"step={race.steps.max}")
    field.fill("no number")
    field.blur()
    expect(field).to_have_value(str(race.steps.max))
    assert len(visited) == 1


def test_arrow_keys_move_tabs_where_a_tab_has_the_focus_and_steps_elsewhere(
    page: Page, client: Client
) -> None:
    job = client.wait(client.submit(job_spec("steps by keys", training=short())).id, timeout_s=120)
    page.goto(f"/jobs/{job.id}?tab=timeline&step=2")
    expect(page.get_by_test_id("step")).to_have_value("2")
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("step=1$"))
    expect(page.get_by_test_id("step")).to_have_value("1")
    page.get_by_test_id("tab-timeline").focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("tab=links"))
    assert "step=2" not in page.url


def test_a_log_stays_when_its_job_ends(
    page: Page, client: Client, server: LiveServer, tmp_path: Path
) -> None:
    (tmp_path / "talks.py").write_text(
        "import pathlib, time\n"
        "from torch import nn\n"
        "class Talks(nn.Sequential):\n"
        "    def forward(self, batch):\n"
        "        print('a batch of', len(batch), flush=True)\n"
        "        while not batch.is_meta and not pathlib.Path('go').exists():\n"
        "            time.sleep(0.02)\n"
        "        return super().forward(batch)\n"
        "def build():\n"
        "    return Talks(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    talks = {"entrypoint": "talks:build", "directory": str(tmp_path)}
    job = client.submit(job_spec("talks", model=talks, training={"steps": 100, "global_batch": 32}))
    page.goto(f"/jobs/{job.id}?tab=logs")
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "running", timeout=RUN_MS)
    log = page.get_by_test_id("log-text")
    expect(log).to_contain_text("a batch of 16")
    # Every state of the text from here on.
    log.evaluate(
        "log => { window.emptied = false; new MutationObserver(() => {"
        " if (log.textContent.startsWith('(nothing')) window.emptied = true; })"
        ".observe(log, {childList: true, characterData: true, subtree: true}); }"
    )
    let_go(server.data_dir, job.id)
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "succeeded", timeout=RUN_MS)
    whole = "".join(client.follow(job.id))
    expect(log).to_have_text(whole, use_inner_text=True)
    assert not page.evaluate("window.emptied")
    page.get_by_test_id("log-party").get_by_text("supervisor").click()
    expect(page).to_have_url(re.compile("party=supervisor"))


def test_what_changed_before_notices_came_is_asked_for_again(page: Page, client: Client) -> None:
    held: list[Route] = []
    notices = re.compile("/api/v1/notices")
    page.route(notices, lambda route: held.append(route))  # noqa: PLW0108  (Playwright marks what it calls)
    page.goto("/jobs?text=meanwhile")
    expect(page.get_by_test_id("jobs-empty")).to_be_visible()
    job = client.submit(job_spec("meanwhile", training=short()))
    client.wait(job.id, timeout_s=120)  # no further notice follows
    expect(page.get_by_test_id("jobs-empty")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_test_id(f"job-row-{job.id}")).to_be_visible()


def test_many_hidden_tabs_leave_the_connections_to_the_one_that_is_seen(
    lone_page: Page, client: Client
) -> None:
    """A browser opens six connections to a host, for all tabs together."""
    page = lone_page
    tabs = [page.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.clock.install()
        tab.goto("/jobs?text=while hidden")
        expect(tab.get_by_test_id("jobs-empty")).to_be_visible()
        expect(tab.get_by_test_id("connection")).to_have_attribute("data-state", "live")
        show(tab, hidden=True)
        tab.clock.run_for(11_000)
    page.goto("/jobs")
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")

    job = client.submit(job_spec("while hidden", training=short()))
    client.wait(job.id, timeout_s=120)  # no further notice follows
    expect(tabs[0].get_by_test_id("jobs-empty")).to_be_visible()
    expect(tabs[0].get_by_test_id("connection")).to_have_attribute("data-state", "live")
    with tabs[0].expect_request("**/api/v1/notices?last_event_id=*"):
        show(tabs[0], hidden=False)
    tabs[0].clock.resume()
    expect(tabs[0].get_by_test_id(f"job-row-{job.id}")).to_be_visible()


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
    row.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(f"/jobs/{jobs[1].id}"))
    page.go_back()
    expect(page.get_by_test_id("unselect")).to_have_text("Unselect 2")
    expect(page.get_by_test_id(f"select-{jobs[0].id}")).to_be_checked()
    page.get_by_test_id("race-selected").click()
    expect(page).to_have_url(re.compile(f"/race\\?jobs={jobs[0].id},{jobs[1].id}"))


def test_what_is_typed_into_a_filter_is_kept_and_what_is_cleared_stays_cleared(page: Page) -> None:
    """The address follows a quarter of a second behind the field, and comes back to it."""
    page.goto("/jobs")
    field = page.get_by_test_id("filter-text")
    field.press_sequentially("about a dozen", delay=252)
    expect(field).to_have_value("about a dozen")
    expect(page).to_have_url(re.compile("text=about"))
    field.press_sequentially("!")
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(field).to_have_value("")
    page.wait_for_timeout(500)  # longer than the address waits for another letter
    expect(field).to_have_value("")
    expect(page).to_have_url(re.compile("/jobs$"))


def test_a_running_job_is_cancelled_from_its_page(page: Page, client: Client) -> None:
    job = client.submit(held_spec("too long"))
    page.goto(f"/jobs/{job.id}")
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "running", timeout=RUN_MS)
    page.get_by_test_id("cancel").click()
    page.get_by_role("button", name="Let it run").click()
    expect(page.get_by_test_id("cancel-confirm")).to_have_count(0)
    assert client.job(job.id).state == "running"
    page.get_by_test_id("cancel").click()
    page.get_by_test_id("cancel-confirm").click()
    expect(page.get_by_test_id("state")).to_have_attribute("data-state", "cancelled", timeout=RUN_MS)
    expect(page.get_by_test_id("why")).not_to_be_empty()
    expect(page.get_by_test_id("cancel")).to_have_count(0)


def test_a_running_job_is_watched_through_a_reload_and_a_restart_of_the_server(
    browser: Browser, server: LiveServer, tmp_path: Path, port: int
) -> None:
    (tmp_path / "cache").symlink_to(server.data_dir / "cache")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(RUN_MS)
    page = context.new_page()
    connection, state = page.get_by_test_id("connection"), page.get_by_test_id("state")
    loss = page.get_by_test_id("figure-loss")
    with (
        LiveServer(tmp_path, port=port, cpu_devices=2, warm_jobs=True) as first,
        Client(first.url) as client,
    ):
        job = client.submit(held_spec("goes on", at=NEVER, pause_s=0.1))
        page.goto(f"{first.url}/jobs/{job.id}?tab=timeline&step=2")
        expect(state).to_have_attribute("data-state", "running", timeout=RUN_MS)
        expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-drawn", "true", timeout=RUN_MS)

        page.reload()
        expect(page.get_by_test_id("step")).to_have_value("2")
        expect(page).to_have_url(re.compile("tab=timeline&step=2$"))
        page.get_by_test_id("tab-overview").click()
        expect(loss).to_have_attribute("data-drawn", "true", timeout=RUN_MS)
        expect(connection).to_have_attribute("data-state", "live")
        first.stop()
        expect(connection).to_have_attribute("data-state", "lost")
        expect(connection).to_have_text(re.compile(r"^reconnecting · (now|\d+ (s|min) ago)$"))
        expect(loss).to_be_visible()
        before = drawn_until(page)
    # What it measured meanwhile is drawn, too: every step once, and those that follow.
    with LiveServer(tmp_path, cpu_devices=2, port=port) as second, Client(second.url) as client:
        expect(connection).to_have_attribute("data-state", "live", timeout=RUN_MS)
        page.wait_for_function(f"({LAST_STEP})() > {before + 20}")
        client.cancel(job.id)
        expect(state).to_have_attribute("data-state", "cancelled", timeout=RUN_MS)
        with_all_telemetry(client, job.id)
        last = said(client.figure(job.id, "loss").data[0].x)[-1]  # of a group of steps, where there are many
        page.wait_for_function(f"({LAST_STEP})() === {last}")
        assert len(client.job(job.id).attempts) == 1
    context.close()


def drawn_until(page: Page) -> int:
    """The last step of the loss that is drawn."""
    return int(page.evaluate(LAST_STEP))


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
