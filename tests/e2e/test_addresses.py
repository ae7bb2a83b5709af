"""An address carries what is seen: zoomed figures, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_a_zoom_of_the_overview_is_in_its_address(page: Page, recorded: list[str]) -> None:
    page.goto(f"/jobs/{recorded[0]}?tab=overview")
    chart = page.get_by_test_id("figure-loss")
    expect(page.get_by_test_id("value-iteration")).to_contain_text("ms")  # what comes above moves the figure
    expect(chart).to_have_attribute("data-drawn", "true")
    box = chart.bounding_box()
    assert box is not None
    left, wide, top = chart.evaluate(
        "c => [c._fullLayout.xaxis._offset, c._fullLayout.xaxis._length, c._fullLayout.yaxis._offset]"
    )
    page.mouse.move(box["x"] + left + 0.3 * wide, box["y"] + top + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + left + 0.7 * wide, box["y"] + top + 32, steps=6)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"zoom=loss"))
    range_of = "c => c._fullLayout.xaxis.range"
    zoomed = chart.evaluate(range_of)
    page.reload()
    expect(chart).to_have_attribute("data-drawn", "true")
    assert chart.evaluate(range_of) == pytest.approx(zoomed, rel=1e-4)
    other = page.get_by_test_id("figure-throughput")
    expect(other).to_have_attribute("data-drawn", "true")
    assert other.evaluate(range_of)[0] == 0, "the others show everything"


def test_zooms_of_compared_curves_and_of_a_race_are_in_their_addresses(
    page: Page, recorded: list[str], raced: str
) -> None:
    for address, figure, name in (
        (f"/compare?jobs={','.join(recorded)}", "figure-compare-loss", "loss"),
        (f"/races/{raced}", "figure-race-throughput", "throughput"),
    ):
        page.goto(address)
        chart = page.get_by_test_id(figure)
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_attribute("data-drawn", "true")
        chart.press("+")
        expect(page).to_have_url(re.compile(f"zoom={name}"))
        range_of = "c => c._fullLayout.xaxis.range"
        zoomed = chart.evaluate(range_of)
        page.reload()
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_attribute("data-drawn", "true")
        assert chart.evaluate(range_of) == pytest.approx(zoomed, rel=1e-4)


def test_what_an_address_says_that_no_page_understands_vanishes(page: Page, recorded: list[str]) -> None:
    job = recorded[0]
    for path, kept in (
        (f"/jobs/{job}?tab=nope&step=3", f"/jobs/{job}?step=3"),
        ("/jobs?state=asleep&sort=weight&text=recorded", "/jobs?text=recorded"),
        (f"/race?jobs={','.join(recorded)}&step=latest", f"/race?jobs={','.join(recorded)}"),
        ("/compare?by=moon&smooth=200", "/compare"),
        ("/launch?start=moon", "/launch"),
    ):
        page.goto(path)
        expect(page).to_have_url(re.compile(f"{re.escape(kept)}$"))
    page.goto(f"/jobs/{job}?tab=nope")
    expect(page.get_by_test_id("tab-overview")).to_have_attribute("aria-selected", "true")
    page.get_by_test_id("tab-plan").click()
    expect(page).to_have_url(re.compile(f"/jobs/{job}\\?tab=plan$"))
