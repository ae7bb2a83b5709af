"""Every page can be used by everybody, as far as axe can tell, in the light and in the dark; and none complains in the
console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.axe import bring, serious
from tests.e2e.views import AT_REST, STILL, View, views

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Route

pytestmark = pytest.mark.browser
REFUSED = "Failed to load resource"
"""What a browser says of every answer that refuses something: pages ask for what is not there, and say so."""
THEMES: dict[Literal["light", "dark"], tuple[str, ...] | None] = {"light": None, "dark": ("color-contrast",)}
"""Which of axe's rules are asked in which: a theme changes colours only."""


CROSSING = "ddp catches up at 900 Mbit/s"


def _with_crossing(route: Route) -> None:
    """What two rates would have to differ for."""
    answer = route.fetch()
    route.fulfill(response=answer, json=answer.json() | {"crossings": [CROSSING]})


@pytest.mark.timeout(
    900
)  # all pages, twice: on slow cores that other tests share it takes more than the usual 300 s
def test_no_page_has_serious_findings_of_axe_or_complaints_in_the_console(
    page: Page, client: Client, recorded: list[str], drifting: str, raced: str
) -> None:
    said: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if not message.text.startswith(REFUSED):  # also plotly.js's warnings, which it says as traces
            said.append(f"{page.url}: {message.text}")

    page.on("console", hear)
    bring(page)
    race = client.standings(raced)
    assert race.next, "there is something to try next"
    assert all(one.limit for ranking in race.rankings for one in ranking.standings if one.rank)
    found = views(client, recorded, drifting)
    page.route(f"**/api/v1/races/{raced}", _with_crossing)
    found["race-ranking"] = View(address=f"/races/{raced}", shows="panel-race-throughput")
    wrong = {}
    for name, view in found.items():
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        view.open(page)
        if name == "race-ranking":
            expect(page.get_by_test_id("crossings")).to_contain_text(CROSSING)
        headings = page.get_by_role("heading", level=1).count()
        if headings != 1:
            wrong[name] = [f"{headings} headings of the first level"]
        page.evaluate(STILL)
        for theme, rules in THEMES.items():
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(AT_REST)
            if findings := serious(page, rules):
                wrong[f"{name}, {theme}"] = findings
    assert not wrong
    assert not said
