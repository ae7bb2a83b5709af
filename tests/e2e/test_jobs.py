"""The list of jobs: of hundreds only what is visible is drawn; it is filtered; jobs that have ended can be deleted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import ApiError, Client
from backend.db import Database
from backend.services.benchmark_fill import add_others
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.databases import opened_by
from tests.e2e.conftest import new_context

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

pytestmark = pytest.mark.browser
JOBS = 150
MOST_ROWS = 60
"""On a laptop's screen, and above and below it."""
SCROLL_S = 60.0
"""How long scrolling may take: the list asks the server for the next jobs whenever its end comes into sight."""
SCROLL = "document.scrollingElement.scrollTo(0, document.scrollingElement.scrollHeight)"


@pytest.fixture(scope="module")
def full(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that starts nothing, with three pages of jobs."""
    directory = tmp_path_factory.mktemp("full")
    (directory / "cache").symlink_to(server.data_dir / "cache")
    database = Database(opened_by(directory))
    add_others(database, JOBS)
    database.close()
    with LiveServer(directory, scheduler=False, warm_jobs=True) as running:
        yield running


@pytest.fixture
def jobs_page(browser: Browser, full: LiveServer) -> Iterator[Page]:
    context = new_context(browser, full.url)
    page = context.new_page()
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    yield page
    context.close()
    assert not broken


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.soak)])
def test_only_rows_near_the_screen_are_drawn(jobs_page: Page, full: LiveServer, width: int) -> None:
    page = jobs_page
    page.set_viewport_size({"width": width, "height": 800})
    rows = page.get_by_test_id(re.compile("^job-row-"))
    with Client(full.url) as client:
        newest, *_, oldest = client.jobs()
        client.note(
            oldest.id, f"seen on {width} pixels"
        )  # a page asks for all again where nothing was noticed yet
        page.goto("/jobs")
        first, last = (page.get_by_test_id(f"job-row-{job.id}") for job in (newest, oldest))
        expect(first).to_be_visible()
        draw_while_asked_again(page, client, newest.id, oldest.id, f"asked for again on {width} pixels")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    deadline = time.monotonic() + SCROLL_S
    while not last.count() and time.monotonic() < deadline:
        assert rows.count() < MOST_ROWS
        page.evaluate(SCROLL)
        page.wait_for_timeout(100)
    expect(last).to_be_visible()
    assert rows.count() < MOST_ROWS
    expect(page.get_by_test_id("jobs-count")).to_have_text(f"{JOBS} jobs")
    expect(first).to_have_count(0)
    assert page.get_by_test_id("jobs-table").get_attribute("aria-rowcount") == str(JOBS + 1)


def draw_while_asked_again(page: Page, client: Client, shown: str, unseen: str, note: str) -> None:
    """A job that the list does not show gets a note, so that it is asked for again, once; meanwhile a job in it is
    ticked. The answer is the one of before, for which nothing is drawn."""
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
    held: list[Route] = []
    page.route(re.compile(r"/api/v1/jobs\?.*limit=50"), lambda route: held.append(route))  # noqa: PLW0108
    client.note(unseen, note)
    while not held:  # a request is seen before it is held
        page.wait_for_timeout(10)
    page.get_by_test_id(f"select-{shown}").check()
    with page.expect_response(held[0].request.url):
        held[0].continue_()
    page.unroute(re.compile(r"/api/v1/jobs\?.*limit=50"))


def choose(page: Page, filter_: str, option: str) -> None:
    page.get_by_test_id(f"filter-{filter_}").click()
    page.get_by_role("option", name=option, exact=True).click()


def test_the_list_is_filtered_and_the_filters_are_in_the_address(jobs_page: Page, full: LiveServer) -> None:
    page = jobs_page
    count = page.get_by_test_id("jobs-count")
    with Client(full.url) as client:
        succeeded = next(client.jobs(state="succeeded"))
        wanted = [job.id for job in client.jobs(state="failed", strategy="parameter-server")]
    assert 1 < len(wanted) < 50
    page.goto("/jobs")
    expect(count).to_contain_text("older ones follow")
    expect(page.get_by_test_id(f"job-row-{succeeded.id}")).to_be_visible()
    csv = page.get_by_test_id("table-csv")
    expect(csv).to_have_text(re.compile(r"^CSV of the \d+ shown$"))
    choose(page, "state", "failed")
    expect(page.get_by_test_id(f"job-row-{succeeded.id}")).to_have_count(0)
    choose(page, "strategy", "parameter-server")
    expect(count).to_have_text(f"{len(wanted)} jobs")
    expect(csv).to_have_text("CSV")
    choose(page, "model", "mlp")
    expect(page).to_have_url(re.compile("state=failed&strategy=parameter-server&model=mlp$"))
    page.reload()
    expect(count).to_have_text(f"{len(wanted)} jobs")
    for job_id in wanted:
        expect(page.get_by_test_id(f"job-row-{job_id}")).to_be_visible()
    choose(page, "model", "vgg-small")
    expect(page.get_by_test_id("jobs-empty")).to_be_visible()
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs$"))
    expect(count).to_contain_text("older ones follow")


def test_what_is_in_another_group_is_neither_compared_nor_deleted(jobs_page: Page) -> None:
    page = jobs_page
    page.goto("/jobs?state=succeeded&group=strategy&open=parameter-server")
    boxes = page.get_by_test_id(re.compile("^select-"))
    for place in range(2):
        boxes.nth(place).check()
    compare, delete = page.get_by_test_id("compare-selected"), page.get_by_test_id("delete")
    expect(compare).to_be_enabled()
    expect(delete).to_be_enabled()
    page.get_by_test_id("group-by").click()
    page.get_by_role("option", name="By model").click()
    expect(page.get_by_test_id("group-mlp")).to_be_visible()
    expect(compare).to_be_disabled()
    expect(delete).to_be_disabled()


def test_another_tab_s_saved_filters_stay(jobs_page: Page) -> None:
    tabs = [jobs_page, jobs_page.context.new_page()]
    for number, page in enumerate(tabs):
        page.goto(f"/jobs?text=job {number}")
        page.get_by_test_id("saved-filters").click()
    for number, page in enumerate(tabs):
        page.get_by_test_id("save-filter-name").fill(f"tab {number}")
        page.get_by_test_id("save-filter").click()
    for number in range(2):
        expect(tabs[1].get_by_test_id(f"saved-tab {number}")).to_be_visible()


def deletes(request: Request) -> bool:
    return request.method == "DELETE"


def test_jobs_that_have_ended_are_deleted_after_asking(jobs_page: Page, full: LiveServer) -> None:
    page = jobs_page
    with Client(full.url) as client:
        waiting = client.submit(job_spec("waits"))
        ended = list(client.jobs(text="job 14"))[:3]
        page.goto("/jobs?text=job 14")
        delete = page.get_by_test_id("delete")
        expect(delete).to_be_disabled()
        for job in ended[:2]:
            page.get_by_test_id(f"select-{job.id}").check()
        delete.click()
        page.get_by_role("button", name="Keep them").click()
        assert client.job(ended[0].id).name == ended[0].name
        delete.click()
        client.delete(ended[0].id)  # somebody else is faster: the question is still about both
        expect(page.get_by_test_id(f"job-row-{ended[0].id}")).to_have_count(0)
        question = page.get_by_role("dialog")
        for job in ended[:2]:
            expect(question).to_contain_text(job.name)
        held: list[Route] = []
        page.route("**/api/v1/jobs/*", lambda route: held.append(route))  # noqa: PLW0108
        with page.expect_request(deletes):
            page.get_by_test_id("delete-confirm").click()
        expect(question).to_contain_text("0 of 2 deleted")
        expect(question.get_by_role("button", name="Keep them")).to_be_disabled()
        with page.expect_request(deletes):
            held[0].continue_()
        expect(question).to_contain_text("1 of 2 deleted")
        held[1].continue_()
        page.unroute("**/api/v1/jobs/*")
        for job in ended[:2]:
            expect(page.get_by_test_id(f"job-row-{job.id}")).to_have_count(0)
            with pytest.raises(ApiError):
                client.job(job.id)
        expect(delete).to_be_disabled()

        page.goto(f"/jobs/{waiting.id}")
        expect(page.get_by_test_id("cancel")).to_be_visible()
        expect(page.get_by_test_id("delete")).to_have_count(0)
        page.goto(f"/jobs/{ended[2].id}")
        page.get_by_test_id("delete").click()
        page.get_by_test_id("delete-confirm").click()
        expect(page).to_have_url(re.compile("/jobs$"))
        expect(page.get_by_test_id(f"job-row-{waiting.id}")).to_be_visible()
        expect(page.get_by_test_id(f"job-row-{ended[2].id}")).to_have_count(0)
        with pytest.raises(ApiError):
            client.job(ended[2].id)


def test_the_deletion_of_much_telemetry_shows_how_far_it_is(jobs_page: Page, full: LiveServer) -> None:
    page = jobs_page
    with Client(full.url) as client:
        job = next(client.jobs(state="succeeded"))
        held: list[Route] = []

        def hold(route: Route) -> None:
            if deletes(route.request):
                held.append(route)
            else:
                route.continue_()

        page.goto(f"/jobs/{job.id}")
        page.route(f"**/api/v1/jobs/{job.id}", hold)
        page.get_by_test_id("delete").click()
        page.get_by_test_id("delete-confirm").click()
        while not held:  # a request is seen before it is held
            page.wait_for_timeout(10)
        # As the service answers when some seconds are over.
        held[0].fulfill(status=202, json={"rows_deleted": 30, "rows_left": 90})
        expect(page.get_by_role("dialog")).to_contain_text("25.0 % deleted")
        while len(held) < 2:
            page.wait_for_timeout(10)
        held[1].continue_()
        expect(page).to_have_url(re.compile("/jobs$"))
        with pytest.raises(ApiError):
            client.job(job.id)
