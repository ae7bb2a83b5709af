"""The path of somebody who comes with a model of their own: from nothing to a ranking, in few clicks, which are
counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import ENDED, Client
from tests.backend.live_server import LiveServer
from tests.backend.own_model import write_model
from tests.e2e.conftest import new_context
from tests.e2e.ranked import expect_ranked
from tests.labs import needs_lab

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser
HEIGHT = 720
"""Of the smallest laptops: what one begins with is in sight on them, too."""
MOST_CLICKS, MOST_FIELDS = 6, 2
STRATEGIES = {"p3", "parameter-server", "ring-allreduce-overlap", "ddp"}
RATES = ("100Mbit", "1Gbit")
RACE_MS = 320_000
"""32 jobs, one after another."""
# Presses of the pointer and fields that were filled in, over all pages of the tab.
COUNTED = """
    const count = key => sessionStorage.setItem(key, 1 + Number(sessionStorage.getItem(key) ?? 0));
    addEventListener('pointerdown', () => count('clicks'), true);
    addEventListener('change', event => { if (event.target.type === 'text') count('fields'); }, true);
"""


def start_race(page: Page, folder: Path) -> None:
    """What the person does, from the first page on."""
    model, data = write_model(folder)
    page.add_init_script(COUNTED)
    page.goto("/")
    page.get_by_test_id("start-own").click()
    fill(page.get_by_test_id("field-model.entrypoint"), model)
    fill(page.get_by_test_id("field-data.entrypoint"), data)
    for rate in RATES:
        page.get_by_test_id("race-fields").get_by_text(rate, exact=True).click()
    for strategy in STRATEGIES - {"ddp"}:
        expect(page.get_by_test_id(f"can-{strategy}")).to_have_attribute("data-state", "runs")


def fill(field: Locator, text: str) -> None:
    """As a person does: one goes there with the pointer, and pastes; the next press leaves the field."""
    field.click()
    field.page.keyboard.insert_text(text)


def launch(page: Page) -> str:
    """Start the race; its id. The path was no longer than it may be."""
    page.get_by_test_id("launch").click()
    expect(page.get_by_test_id("race-name")).to_have_text("my model")
    clicks, fields = (
        page.evaluate(f"Number(sessionStorage.getItem('{key}'))") for key in ("clicks", "fields")
    )
    # The start, both fields, both rates and the button: what a person cannot do without is all counted.
    assert (clicks, fields) == (MOST_CLICKS, MOST_FIELDS)
    return page.url.rpartition("/")[2]


def see_ranked(page: Page, client: Client, race: str, members: set[str]) -> None:
    """The race runs to its end, and the page shows what the service says: a place for each of these members."""
    try:
        expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "finished", timeout=RACE_MS)
    finally:
        if any(job.state not in ENDED for job in client.jobs()):
            client.cancel_race(race)
    expect_ranked(page, client, race, members, RATES)


@pytest.mark.soak
def test_from_nothing_to_a_ranking_of_ones_own_model_over_four_strategies_and_two_rates(
    browser: Browser, tmp_path: Path
) -> None:
    needs_lab()
    with (
        LiveServer(tmp_path / "data", cpu_devices=2) as server,  # the one command
        Client(server.url) as client,
        new_context(browser, server.url, HEIGHT) as context,
    ):
        page = context.new_page()
        start_race(page, tmp_path / "mine")
        expect(page.get_by_test_id("can-ddp")).to_have_attribute("data-state", "runs")
        race = launch(page)
        see_ranked(page, client, race, STRATEGIES)
        expect(page.get_by_test_id("takes-no-part")).to_have_count(0)
        page.get_by_test_id("panel-race-throughput").scroll_into_view_if_needed()
        expect(page.locator("[data-testid=figure-race-throughput][data-drawn]")).to_be_visible()
        page.goto("/")
        expect(page.get_by_test_id("race-name")).to_have_text("my model")  # the newest verdict


@pytest.mark.parametrize("to_its_end", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_without_a_lab_the_race_says_why_ddp_takes_no_part_and_ranks_the_others(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_its_end: bool
) -> None:
    """24 jobs one after another in `soak`. In the suite the page ranks the two members of a race of three rounds at one
    rate (`test_races.py`), and the command two members with one's own model at two rates (`test_cli_races.py`)."""
    monkeypatch.setenv("PATH", str(tmp_path))  # without iproute2 nobody can make a lab
    with (
        LiveServer(tmp_path / "data", cpu_devices=2, warm_jobs=True) as server,
        Client(server.url) as client,
        new_context(browser, server.url, HEIGHT) as context,
    ):
        page = context.new_page()
        start_race(page, tmp_path / "mine")
        ddp = page.get_by_test_id("can-ddp")
        expect(ddp).to_have_attribute("data-state", "refused")
        refused = page.get_by_test_id("refused")
        expect(refused).to_contain_text("ddp")
        expect(refused).to_contain_text("hosts")  # the remedy
        expect(page.get_by_test_id("race-lab")).to_be_disabled()
        race = launch(page)
        out = page.get_by_test_id("takes-no-part")
        expect(out).to_contain_text("ddp takes no part under any condition")
        if to_its_end:
            see_ranked(page, client, race, STRATEGIES - {"ddp"})
        else:
            client.cancel_race(race)
            expect(page.get_by_test_id("race-state")).to_have_attribute("data-state", "cancelled")
