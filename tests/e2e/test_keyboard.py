"""Pages by keyboard alone: what gets the focus is in sight, is marked, and lies under nothing else; charts are among
it, and zoom; Escape closes what lies over the page and gives the focus back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.held_jobs import held_spec
from tests.e2e.axe import bring, serious
from tests.e2e.stops import stops
from tests.e2e.views import View

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.e2e.visited import Visited

pytestmark = pytest.mark.browser


@pytest.mark.timeout(900)  # the visit to all pages: on slow cores it takes more than the usual 300 s
def test_every_stop_of_the_keyboard_is_in_sight_and_marked(visited: Visited) -> None:
    assert not visited.unmarked
    assert visited.come_by >= {
        "figure-loss", "figure-throughput", "figure-timeline", "figure-utilization", "figure-heatmap",
        "figure-compare-loss", "figure-race", "figure-race-throughput", "figure-drift",
    }  # fmt: skip


def test_the_ends_of_what_is_measured_are_stops(page: Page, client: Client, recorded: list[str]) -> None:
    _, job = recorded
    meta = client.figure(job, "timeline", step=5).layout.meta
    third = (meta["to_ns"] - meta["from_ns"]) // 3
    ends = f"{meta['from_ns'] + third},{meta['to_ns'] - third}"
    View(address=f"/jobs/{job}?tab=timeline&step=5&measure={ends}", shows="measure-1").open(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    wrong, come_by = stops(page, past_header=True)
    assert wrong == []
    assert come_by >= {"measure-0", "measure-1"}


RANGE = "chart => chart._fullLayout.xaxis.range.map(Number)"
SHOWS = """([chart, low, high]) => {
    const [from, to] = chart._fullLayout.xaxis.range.map(Number);
    return Math.abs(from - low) + Math.abs(to - high) < 1e-6 * (high - low);
}"""


def wait_until_it_shows(page: Page, chart: Locator, low: float, high: float) -> None:
    page.wait_for_function(SHOWS, arg=[chart.element_handle(), low, high])


def test_a_chart_is_zoomed_and_moved_by_keys(page: Page, recorded: list[str]) -> None:
    page.goto(f"/compare?jobs={','.join(recorded)}")
    chart = page.get_by_test_id("figure-compare-loss")
    expect(chart).to_have_attribute("data-drawn", "true")
    low, high = chart.evaluate(RANGE)
    part = (high - low) / 4
    chart.focus()
    page.keyboard.press("+")
    wait_until_it_shows(page, chart, low + part, high - part)
    page.keyboard.press("Shift+ArrowRight")
    wait_until_it_shows(page, chart, low + 1.5 * part, high - part / 2)
    page.keyboard.press("0")
    wait_until_it_shows(page, chart, low, high)


def test_layers_are_named_lit_up_and_kept_by_arrows_and_enter(page: Page, recorded: list[str]) -> None:
    page.set_viewport_size({"width": 1280, "height": 1600})
    page.goto(f"/jobs/{recorded[0]}?tab=links&step=5")
    chart, other = page.get_by_test_id("figure-utilization"), page.get_by_test_id("figure-timeline")
    for one in (other, chart):
        one.scroll_into_view_if_needed()
        expect(one).to_have_attribute("data-drawn", "true")
    tip = page.get_by_test_id("tip-figure-utilization")
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    expect(tip).not_to_have_text(first, use_inner_text=True)  # another bin
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text(first, use_inner_text=True)
    # Below the lowest layer of a link is the next link.
    page.keyboard.press("ArrowDown")
    expect(tip).not_to_have_text(first, use_inner_text=True)
    below = tip.inner_text()
    page.keyboard.press("ArrowUp")
    expect(tip).not_to_have_text(below, use_inner_text=True)
    # Bytes that belong to no layer light up nothing. They lie on top, and may be all that went while a bin lasted.
    while (layer := tip.get_attribute("data-layer")) == "-1":
        now = tip.inner_text()
        page.keyboard.press("ArrowDown")
        if tip.inner_text() == now:  # there is no link below
            page.keyboard.press("ArrowRight")
            expect(tip).not_to_have_text(now, use_inner_text=True)
    assert layer is not None
    expect(other).to_have_attribute("data-layer", layer)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"layer={layer}\\b"))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(page).to_have_url(re.compile(f"layer={layer}\\b"))  # the first Escape only hides the words
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("layer="))


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param("job-links", "plan-table", marks=pytest.mark.soak),  # both are tables of one kind
        ("job-stretch", "stretch-table"),
    ],
)
def test_rows_of_layers_are_gone_through_by_arrows_and_chosen_by_enter(
    page: Page, pages: dict[str, View], name: str, table: str
) -> None:
    pages[name].open(page)
    rows = page.get_by_test_id(table).locator("tbody tr[tabindex]")
    first, second = (rows.nth(place) for place in range(2))
    layers = [str(one.get_attribute("data-layer")) for one in (first, second)]
    chart = page.get_by_test_id("figure-timeline")
    expect(rows.and_(page.locator("[tabindex='0']"))).to_have_count(1)  # Tab stops once
    first.focus()
    expect(chart).to_have_attribute("data-layer", layers[0])
    page.keyboard.press("ArrowDown")
    expect(second).to_be_focused()
    expect(chart).to_have_attribute("data-layer", layers[1])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"layer={layers[1]}\\b"))
    page.keyboard.press("Home")
    expect(first).to_be_focused()
    first.blur()
    expect(chart).to_have_attribute("data-layer", layers[1])  # it was kept


def test_escape_closes_what_lies_over_the_page_and_gives_the_focus_back(page: Page, client: Client) -> None:
    job = client.submit(held_spec("to be kept"))
    bring(page)
    page.goto(f"/jobs/{job.id}")
    cancel = page.get_by_test_id("cancel")
    cancel.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Let it run")).to_be_focused()
    expect(page.get_by_role("dialog")).to_have_css(
        "opacity", "1"
    )  # it comes in slowly, paler than it will be
    assert serious(page, of=page.get_by_role("dialog")) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(cancel).to_be_focused()
    assert client.job(job.id).state != "cancelled"


def test_a_stop_that_looks_as_it_does_without_the_focus_is_found(page: Page) -> None:
    page.set_content(
        "<button>marked</button><button style='outline: none'>bare</button><button>last</button>"
    )
    assert stops(page) == (["BUTTON bare: not marked"], {None})
