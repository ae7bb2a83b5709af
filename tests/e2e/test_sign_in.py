"""A server that asks for its token: the form, the cookie, the way back to where one was, and out again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.guarded import TOKEN
from tests.backend.job_specs import JSON, job_spec
from tests.backend.live_server import DIRECT, LiveServer
from tests.e2e.axe import bring, serious
from tests.e2e.conftest import new_context
from tests.e2e.launching import open_section
from tests.e2e.stops import stops
from tests.e2e.views import sign_in as sign_in_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SOUGHT = "/jobs?text=kept&state=queued"


@pytest.fixture(scope="module")
def guarded_server(server_lane: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """With one job that waits."""
    with LiveServer(
        tmp_path_factory.mktemp("guarded"), scheduler=False, warm_jobs=True, token=TOKEN
    ) as running:
        with Client(running.url, token=TOKEN) as client:
            client.submit(job_spec("kept"))
        yield running


@pytest.fixture
def visitor(browser: Browser, guarded_server: LiveServer) -> Iterator[Page]:
    """A page of a browser that was never here. Afterwards: it broke nowhere."""
    context = new_context(browser, guarded_server.url)
    page = context.new_page()
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    yield page
    context.close()
    assert not broken


def cookie(page: Page) -> dict[str, Any]:
    """The one that the page has."""
    (found,) = page.context.cookies()
    return dict(found)


def sign_in(page: Page, token: str = TOKEN) -> None:
    page.get_by_test_id("token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def end_session(page: Page, url: str) -> None:
    """As if its time were over, or another tab had signed out."""
    found = cookie(page)
    value = f"{found['name']}={found['value']}"
    answer = httpx.delete(f"{url}/api/v1/session", headers={**JSON, "Cookie": value}, **DIRECT)
    assert answer.status_code == 204


def test_who_signs_in_is_where_they_wanted_to_go(visitor: Page, guarded_server: LiveServer) -> None:
    page = visitor
    page.goto(SOUGHT)
    expect(page).to_have_title("Sign in · Trainyard")
    expect(page.get_by_test_id("token")).to_be_focused()
    expect(page.get_by_text("kept")).to_have_count(0)
    expect(page.get_by_test_id("nav-jobs")).to_have_count(0)

    sign_in(page, "not-this-one-but-another")
    expect(page.get_by_text("This token is nobody's")).to_be_visible()
    assert page.context.cookies() == []

    page.get_by_test_id("token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
    assert page.url == guarded_server.url + SOUGHT
    expect(page).to_have_title("Jobs · Trainyard")

    found = cookie(page)
    assert (found["httpOnly"], found["sameSite"], found["secure"]) == (True, "Strict", False)
    assert found["name"] == f"trainyard-session-{urlsplit(guarded_server.url).port}"
    kept = page.evaluate("JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])")
    for secret in (TOKEN, found["value"]):
        assert secret not in kept + page.content()
    assert TOKEN not in found["value"]

    page.reload()
    expect(page.get_by_role("link", name="kept")).to_be_visible()


def test_everybody_can_sign_in_by_keyboard_on_a_phone_and_in_the_dark(
    visitor: Page, guarded_server: LiveServer
) -> None:
    page = visitor
    bring(page)
    sign_in_page(guarded_server.url).open(page)
    sign_in(page, "not-this-one-but-another")  # what is refused is said in another colour
    expect(page.get_by_text("This token is nobody's")).to_be_visible()
    wrong, come_by = stops(page, anew=True)  # the focus is on the last one
    assert wrong == []
    assert "token" in come_by
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert serious(page) == []


def test_who_signs_out_is_out(visitor: Page, guarded_server: LiveServer) -> None:
    page = visitor
    page.goto(SOUGHT)
    sign_in(page)
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    copied = cookie(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_test_id("sign-in")).to_be_visible()
    assert page.url == guarded_server.url + SOUGHT
    assert page.context.cookies() == []
    expect(page.get_by_text("kept")).to_have_count(0)
    headers = {"Cookie": f"{copied['name']}={copied['value']}"}
    assert httpx.get(f"{guarded_server.url}/api/v1/jobs", headers=headers, **DIRECT).status_code == 401
    page.go_back()
    page.goto("/launch")
    expect(page.get_by_test_id("sign-in")).to_be_visible()


def test_a_session_that_ends_leaves_the_page_as_it_was(visitor: Page, guarded_server: LiveServer) -> None:
    page = visitor
    page.goto("/launch")
    sign_in(page)
    page.get_by_test_id("field-name").fill("typed before it ended")
    open_section(page, "training")
    end_session(page, guarded_server.url)
    page.get_by_test_id("field-training.global_batch").fill("48")  # the preview asks
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    expect(page.get_by_test_id("field-name")).to_be_hidden()
    assert page.url == f"{guarded_server.url}/launch"
    sign_in(page)
    expect(page.get_by_test_id("field-name")).to_have_value("typed before it ended")
    expect(page.get_by_test_id("field-training.global_batch")).to_have_value("48")
    expect(page.get_by_test_id("plan-totals")).to_contain_text("on the wire per step")
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")


def test_a_page_that_only_watches_hears_of_another_token(visitor: Page, tmp_path: Path, port: int) -> None:
    page = visitor
    with LiveServer(tmp_path, port=port, scheduler=False, warm_jobs=True) as server:
        page.goto(f"{server.url}/jobs")
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    with LiveServer(tmp_path, port=port, scheduler=False, warm_jobs=True, token=TOKEN):
        expect(page.get_by_test_id("sign-in")).to_be_visible()
        sign_in(page)
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")


def test_every_page_of_a_server_that_asks_nobody_says_so(visitor: Page, tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, warm_jobs=True, insecure=True) as server:
        pages = ("/", "/race", "/races", "/jobs", "/compare", "/devices", "/people", "/launch", "/nowhere")
        for path in pages:
            visitor.goto(server.url + path)
            expect(visitor.get_by_test_id("insecure")).to_contain_text("whoever reaches it can run programs")
        expect(visitor.get_by_role("button", name="Sign out")).to_have_count(0)
