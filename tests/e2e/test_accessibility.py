"""Every page can be used by everybody, as far as axe can tell, in the light and in the dark; and none complains in the
console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backend.client import Client
from tests.e2e.views import PARTS, dialog
from tests.e2e.visited import visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.e2e.views import View
    from tests.e2e.visited import Visited

pytestmark = pytest.mark.browser


def test_the_race_has_all_that_its_page_may_show(client: Client, raced: str) -> None:
    race = client.standings(raced)
    assert race.next, "there is something to try next"
    assert all(one.limit for ranking in race.rankings for one in ranking.standings if one.rank)


@pytest.mark.timeout(900)  # the visit to all pages: on slow cores it takes more than the usual 300 s
def test_no_page_has_serious_findings_of_axe_or_complaints_in_the_console(visited: Visited) -> None:
    assert not visited.wrong
    assert not visited.said


def test_a_dialog_neither_fades_nor_slides_in_for_who_asks_for_less_motion(
    page: Page, recorded: list[str]
) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/jobs/{recorded[0]}")
    with dialog(page, "delete") as opened:
        now = opened.evaluate(
            "it => { const {opacity, transform} = getComputedStyle(it); return [opacity, transform] }"
        )
        assert now == ["1", "none"]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_neither_has_one_of_which_another_has_all(page: Page, pages: dict[str, View], raced: str) -> None:
    """Nor is it wider than a phone, nor does the keyboard come by what is not in sight or not marked, nor is there a
    figure or table that is not taken along."""
    found = visit(page, {name: pages[name] for name in PARTS}, raced)
    assert not found.wrong
    assert not found.said
    assert not found.wide
    assert not found.hidden_tabs
    assert not found.unmarked
    assert not any(taken.without for taken in found.taken.values())
