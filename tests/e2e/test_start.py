"""The first minute: where a person lands, what is explained once, and the three ways to begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from engine.plan.words import WORDS
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.e2e.axe import bring, serious
from tests.e2e.conftest import new_context
from tests.e2e.launching import open_section

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
HEIGHT = 720
"""Of the smallest laptops: what one begins with is in sight on them, too."""


@pytest.fixture(scope="module")
def untouched(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """An installation that has just been made, for those who only look."""
    with LiveServer(tmp_path_factory.mktemp("untouched"), scheduler=False, warm_jobs=True) as server:
        yield server


@pytest.fixture
def first_page(browser: Browser, untouched: LiveServer) -> Iterator[Page]:
    with new_context(browser, untouched.url, HEIGHT) as context:
        yield context.new_page()


@pytest.fixture
def empty(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Client]]:
    """A page of an installation that has just been made."""
    with (
        LiveServer(tmp_path_factory.mktemp("empty"), scheduler=False, warm_jobs=True) as server,
        Client(server.url) as client,
        new_context(browser, server.url, HEIGHT) as context,
    ):
        yield context.new_page(), client


def test_an_empty_installation_offers_three_starts_each_a_click_from_a_form_that_is_filled_in(
    first_page: Page,
) -> None:
    page = first_page
    for start, name in (
        ("cluster", "VGG-19 on four hosts"),
        ("own", "my model"),
        ("digits", "digits"),
    ):
        page.goto("/")
        page.get_by_test_id(f"start-{start}").click()
        expect(page.get_by_test_id("field-name")).to_have_value(name)
        expect(page.get_by_role("checkbox", name="p3", exact=True)).to_be_checked()
        expect(page.get_by_test_id("launch")).to_be_in_viewport()
        expect(page.get_by_test_id("launch")).to_have_text("Start the race")
        if start == "own":  # what it cannot do without comes first
            expect(page.get_by_test_id("field-model.entrypoint")).to_be_in_viewport(ratio=1)
    expect(page.get_by_test_id("can-parameter-server")).to_have_attribute("data-state", "runs")


def test_axe_finds_nothing_serious_where_one_begins(first_page: Page) -> None:
    page = first_page
    bring(page)
    page.goto("/")
    expect(page.get_by_test_id("start-own")).to_be_visible()
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page) == []


def test_where_jobs_can_be_compared_one_lands_there(empty: tuple[Page, Client]) -> None:
    page, client = empty
    client.submit(job_spec("alone"))
    page.goto("/")
    expect(page.get_by_test_id("start")).to_be_visible()
    client.submit(job_spec("the other"))
    page.reload()
    expect(page).to_have_url(re.compile("/race$"))
    expect(page.get_by_test_id("choose-jobs")).to_contain_text("the other")
    race = client.start_race(
        {"job": job_spec("a race"), "members": [{"strategy": "p3"}, {"strategy": "single"}]}
    )
    page.goto("/")
    expect(page).to_have_url(re.compile(f"/races/{race.id}$"))
    client.cancel_race(race.id)
    page.goto("/")
    expect(page).to_have_url(re.compile("/race$"))


def test_the_logo_leads_to_what_came_after_the_last_look(empty: tuple[Page, Client]) -> None:
    page, client = empty
    page.goto("/")
    expect(page.get_by_test_id("start")).to_be_visible()
    page.get_by_role("link", name="Devices").first.click()
    expect(page).to_have_url(re.compile("/devices$"))
    race = client.start_race({"job": job_spec("the first"), "members": [{"strategy": "p3"}]})
    page.get_by_role("link", name="Trainyard").click()
    expect(page).to_have_url(re.compile(f"/races/{race.id}$"))


def test_one_reason_for_several_members_is_said_once(empty: tuple[Page, Client]) -> None:
    page, client = empty
    slices = {"strategy": "p3", "options": {"slice_size": 500}}
    spec = {"job": job_spec("a race"), "members": [{"strategy": "p3"}, slices], "rates": ["1Gbit", "2Gbit"]}
    race = client.start_race(spec)
    page.goto(f"/launch?again={race.id}")
    able = page.locator("[data-testid=can-p3][data-state=runs]")
    expect(able).to_have_text([re.compile("^p3can run"), re.compile(r"^p3 \(slice_size=500\)can run")])
    open_section(page, "cluster")
    page.get_by_test_id("field-cluster.workers").fill("0")
    expect(page.get_by_test_id("refused")).to_have_count(1)
    expect(page.get_by_test_id("can-p3")).to_have_text(["p3", "p3 (slice_size=500)"])
    expect(page.get_by_test_id("race-preview")).to_have_text(
        re.compile("^(?!.*cluster.workers.*cluster.workers)")
    )
    expect(page.get_by_test_id("what-then")).to_have_text("Where nobody can run, no race starts.")


def test_how_to_read_this_is_said_once_and_words_explain_themselves(first_page: Page) -> None:
    page = first_page
    page.goto("/race")
    help_ = page.get_by_test_id("how-to-read")
    expect(help_).to_contain_text("Red is exposed waiting")
    word = help_.get_by_text("software-limited", exact=True)
    word.hover()
    expect(page.get_by_role("tooltip")).to_have_text(f"Software-limited: {WORDS['software-limited']}.")
    page.mouse.move(0, 0)
    help_.get_by_text("version", exact=True).focus()  # by keyboard, too
    explained = page.get_by_role("tooltip").filter(has_text="Version: ")
    expect(explained).to_have_text(f"Version: {WORDS['version']}.")
    help_.get_by_text("version", exact=True).hover()
    word.hover()  # the pointer leaves, as when the layout moves under it
    expect(page.get_by_role("tooltip").filter(has_text="Software-limited: ")).to_be_visible()
    expect(explained).to_be_visible()
    page.keyboard.press("Escape")
    expect(explained).to_have_count(0)
    page.get_by_test_id("how-to-read-close").click()
    expect(help_).to_have_count(0)
    page.goto("/")
    expect(page.get_by_test_id("start")).to_be_visible()
    expect(help_).to_have_count(0)
    page.get_by_test_id("how-to-read-toggle").click()
    expect(help_).to_be_visible()
    page.goto("/jobs")  # which has none to hide
    expect(page.get_by_test_id("connection")).to_be_visible()
    expect(page.get_by_test_id("how-to-read-toggle")).to_have_count(0)


def test_a_dash_in_place_of_a_figure_says_why(empty: tuple[Page, Client]) -> None:
    page, client = empty
    job = client.submit(job_spec("by ddp", strategy={"name": "ddp"}, cluster={"workers": 2}))
    page.goto(f"/jobs/{job.id}")
    wire = page.get_by_test_id("value-wire")
    expect(wire).to_have_text("–")
    reason = re.compile("PyTorch's own collectives")
    expect(wire.get_by_role("img", name=reason)).to_be_visible()
    wire.get_by_role("img").focus()
    expect(page.get_by_role("tooltip", name=reason)).to_be_visible()
    other = client.submit(job_spec("another", cluster={"workers": 2}))
    for address in ("/jobs", f"/compare?jobs={job.id},{other.id}"):
        page.goto(address)
        dashes = page.get_by_text("–", exact=True)
        expect(dashes.first).to_be_visible()
        for dash in dashes.all():
            expect(dash).to_have_accessible_name(re.compile("[a-z]{3}"))
