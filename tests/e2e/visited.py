"""One visit to every page, of which several tests judge what was found: opening them all takes a third of a minute of
a processor. Each is opened on the narrowest phone; then the screen becomes a wider one, as when it is turned, and at
last a laptop's, where the keyboard goes through it, and all that it offers is taken along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import expect

from tests.e2e.axe import bring, serious
from tests.e2e.stops import stops
from tests.e2e.taken import Taken, take_along
from tests.e2e.views import FORMS, SCREEN_PX, STILL, View, at_rest, dialog, unfold

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Route

PHONES, LAPTOP = (320, 390), 1280
"""Widths of screens."""
# The page, and a dialogue over it, which may scroll by itself.
SCROLLED = """() => Math.max(document.documentElement.scrollWidth,
    ...Array.from(document.querySelectorAll('[role=dialog]'), dialogue => dialogue.scrollWidth))"""
REFUSED = "Failed to load resource"
"""What a browser says of every answer that refuses something: pages ask for what is not there, and say so."""
CONTRAST = "color-contrast"
THEMES: dict[Literal["light", "dark"], tuple[str, ...] | None] = {"dark": (CONTRAST,), "light": None}
"""Which of axe's rules are asked on a laptop in which: a theme changes colours only. All others are asked on a phone in
the dark. The dark comes first on the laptop, too: with every change all figures are drawn anew."""
CROSSING = "ddp catches up at 900 Mbit/s"


@dataclass
class Visited:
    """What was found."""

    tabs: set[str] = field(default_factory=set)
    """Of a job's page, those that were seen."""
    wide: dict[tuple[str, int], int] = field(default_factory=dict)
    """By page and width of a phone: how wide the page is, where it is wider."""
    hidden_tabs: list[str] = field(default_factory=list)
    """Pages whose chosen tab is out of sight on a phone."""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """By page, dialog and screen: what axe finds serious; and pages without a heading, or with several, of the first
    level."""
    unmarked: dict[str, list[str]] = field(default_factory=dict)
    """By page: where the keyboard comes to that is not in sight, lies under something, or is not marked."""
    come_by: set[str] = field(default_factory=set)
    """The test ids of what the keyboard comes to."""
    taken: dict[str, Taken] = field(default_factory=dict)
    """By page: what one can take along."""
    said: list[str] = field(default_factory=list)
    """What the pages said in the console."""


def visit(page: Page, pages: Mapping[str, View], raced: str) -> Visited:
    """Go through all pages, of which some are of a race, which is to have something to try next."""
    found = Visited()

    def hear(message: ConsoleMessage) -> None:
        if not message.text.startswith(REFUSED):  # also plotly.js's warnings, which it says as traces
            found.said.append(f"{page.url}: {message.text}")

    page.on("console", hear)
    bring(page)
    answers = f"**/api/v1/races/{raced}"
    for name, view in pages.items():
        page.goto("about:blank")  # or the page before would be drawn once more, for this one's screen
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        page.set_viewport_size({"width": min(PHONES), "height": SCREEN_PX})
        if raced in view.address:
            # Not for all pages: while answers are changed, nothing comes from the cache, scripts neither.
            page.route(answers, _with_crossing)
        view.open(page)
        found.tabs.update(re.findall(r"[?&]tab=(\w+)", view.address))
        page.evaluate(STILL)
        for width in PHONES:
            _on_a_phone(page, name, view, width, found)
        _keep(found, f"{name}, phone", serious(page, without=(CONTRAST,)))
        for opener in view.asks:
            with dialog(page, opener) as opened:
                if (needed := page.evaluate(SCROLLED)) > max(PHONES):
                    found.wide[f"{name}, {opener}", max(PHONES)] = needed
                _keep(found, f"{name}, {opener}, phone", serious(page, of=opened))
        page.set_viewport_size({"width": LAPTOP, "height": SCREEN_PX})
        unfold(page)
        if name == "race-ranking":
            expect(page.get_by_test_id("crossings")).to_contain_text(CROSSING)
        _on_a_laptop(page, name, view, found)
        _by_keyboard(page, name, found)
        if name not in FORMS:
            found.taken[name] = take_along(page, view)
        page.unroute(answers)
    return found


def _on_a_phone(page: Page, name: str, view: View, width: int, found: Visited) -> None:
    page.set_viewport_size({"width": width, "height": (page.viewport_size or {})["height"]})
    at_rest(page)
    if (needed := page.evaluate(SCROLLED)) > width:
        found.wide[name, width] = needed
    if view.shows.startswith("tab-"):
        box = page.get_by_test_id(view.shows).bounding_box()
        if box is None or box["x"] < 0 or box["x"] + box["width"] > width:
            found.hidden_tabs.append(f"{name} at {width}")


def _on_a_laptop(page: Page, name: str, view: View, found: Visited) -> None:
    headings = page.get_by_role("heading", level=1).count()
    if headings != 1:
        found.wrong[name] = [f"{headings} headings of the first level"]
    for theme, rules in THEMES.items():
        page.emulate_media(color_scheme=theme)
        at_rest(page)
        _keep(found, f"{name}, {theme}", serious(page, rules))
    for opener in view.asks:
        with dialog(page, opener) as opened:
            _keep(found, f"{name}, {opener}", serious(page, of=opened))


def _keep(found: Visited, what: str, findings: list[str]) -> None:
    if findings:
        found.wrong[what] = findings


def _by_keyboard(page: Page, name: str, found: Visited) -> None:
    """All pages have one header, so that it is walked through on one."""
    page.set_viewport_size({"width": LAPTOP, "height": 800})  # so much is in sight as on a laptop
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    skips = bool(found.come_by) and page.get_by_role("dialog").count() == 0
    unmarked, seen = stops(page, past_header=skips)
    found.come_by |= seen
    if unmarked:
        found.unmarked[name] = unmarked


def _with_crossing(route: Route) -> None:
    """What two rates would have to differ for."""
    answer = route.fetch()
    route.fulfill(response=answer, json=answer.json() | {"crossings": [CROSSING]})
