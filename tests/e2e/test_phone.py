"""Every page can be read on a phone: nothing sticks out sideways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backend.client import Client
from tests.e2e.views import SCREEN_PX, TABS, views

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
WIDTH = 390
# The page, and a dialogue over it, which may scroll by itself.
SCROLLED = """() => Math.max(document.documentElement.scrollWidth,
    ...Array.from(document.querySelectorAll('[role=dialog]'), dialogue => dialogue.scrollWidth))"""


def test_no_page_is_wider_than_a_phone(page: Page, client: Client, recorded: list[str]) -> None:
    page.set_viewport_size({"width": WIDTH, "height": SCREEN_PX})
    found = views(client, recorded)
    assert {f"job-{tab}" for tab in TABS} <= set(found)
    wide = {}
    for name, view in found.items():
        view.open(page)
        if (width := page.evaluate(SCROLLED)) > WIDTH:
            wide[name] = width
        if view.shows.startswith("tab-"):
            box = page.get_by_test_id(view.shows).bounding_box()
            assert box is not None
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= WIDTH, f"{name}: the chosen tab is out of sight"
    assert not wide
