"""Pages by keyboard alone: what gets the focus is in sight, is marked, and lies under nothing else; charts are among
it, and zoom; Escape closes what lies over the page and gives the focus back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.backend.held_jobs import held_spec
from tests.backend.job_specs import job_spec
from tests.e2e.views import STILL, View

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
MOST_STOPS = 400
# What has the focus. A field that is hidden is shown by its label, or by what is drawn in its place.
FOCUSED = """() => {
    const focused = document.activeElement;
    if (focused === null || focused === document.body) return null;
    const hidden = one => {
        const {width, height} = one.getBoundingClientRect();
        return width < 3 || height < 3 || getComputedStyle(one).opacity === '0';
    };
    const shown = hidden(focused) ? focused.labels?.[0] ?? focused.parentElement : focused;
    const frame = focused.closest('.mantine-Input-wrapper')?.firstElementChild ?? null;
    const looks = () => [focused, shown, frame, focused.parentElement, focused.nextElementSibling]
        .filter(one => one !== null)
        .map(one => {
            const {outlineStyle, outlineWidth, outlineColor, borderColor, boxShadow} = getComputedStyle(one);
            return [outlineStyle, outlineWidth, outlineColor, borderColor, boxShadow].join();
        }).join(';');
    const [box, marked] = [shown.getBoundingClientRect(), looks()];
    const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
    const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
    const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const tips = at?.closest('[role=tooltip]');
    const inSight = right > left && bottom - top >= Math.min(box.height, 12) - 1;
    const own = [...(at?.labels ?? [])].some(one => one.contains(shown)); // a hidden field lies over its label
    const free = tips || own || at === null || shown.contains(at) || at.contains(shown) || focused.contains(at);
    focused.blur();
    const without = looks();
    focused.focus({preventScroll: true});
    if (!window.stops) window.stops = [];
    const again = window.stops.indexOf(focused);
    if (again < 0) window.stops.push(focused);
    const name = focused.dataset.testid ?? focused.ariaLabel ?? focused.textContent.trim().slice(0, 40);
    return {name: `${focused.tagName} ${name}`, again, inSight, free: Boolean(free), marked: marked !== without,
            under: free ? '' : `under ${at.tagName} ${at.className} at ${top} of ${innerHeight}`,
            id: focused.dataset.testid ?? null};
}"""
# The page's last element that Tab comes by, where it did not; of radios that go together it comes by one.
NOT_REACHED = """() => {
    const wanted = 'a[href], button, input, select, textarea, [tabindex]';
    const last = [...document.querySelectorAll(wanted)].filter(one =>
        one.tabIndex >= 0 && !one.disabled && one.type !== 'radio' && one.type !== 'hidden'
        && one.checkVisibility({visibilityProperty: true})).at(-1);
    return last === undefined || window.stops.includes(last) ? null : last.outerHTML.slice(0, 200);
}"""


def stops(page: Page) -> tuple[list[str], set[str]]:
    """What is wrong with what Tab comes by, from the first to the last; and the test ids of that. After the last stop
    there is none, or the first one again: anything else is a trap."""
    wrong, seen = [], set()
    page.evaluate(STILL)
    page.evaluate("delete window.stops")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        found: dict[str, Any] | None = page.evaluate(FOCUSED)
        if found is None or found["again"] >= 0:
            if found and found["again"] > 0:
                wrong.append(f"{found['name']}: Tab comes back to it, and not to the first stop")
            if missed := page.evaluate(NOT_REACHED):
                wrong.append(f"Tab does not come to the last: {missed}")
            return wrong, seen
        seen.add(found["id"])
        wrong += [
            f"{found['name']}: not {what} {found['under']}".rstrip()
            for what in ("inSight", "free", "marked")
            if not found[what]
        ]
    raise AssertionError(f"after {MOST_STOPS} stops there are more")


def test_every_stop_of_the_keyboard_is_in_sight_and_marked(
    page: Page, client: Client, recorded: list[str]
) -> None:
    members = [{"strategy": name} for name in ("p3", "parameter-server")]
    race = client.start_race(
        {"job": job_spec("by keyboard"), "members": members, "rates": ["1Gbit", "2Gbit"]}
    )
    client.cancel_race(race.id)
    _, job = recorded
    meta = client.figure(job, "timeline", step=5).layout.meta
    third = (meta["to_ns"] - meta["from_ns"]) // 3
    ends = f"{meta['from_ns'] + third},{meta['to_ns'] - third}"
    pages = {
        "launch a race": View(address="/launch?start=cluster", shows="can-p3"),
        "overview": View(address=f"/jobs/{job}", shows="figure-loss"),
        "timeline": View(address=f"/jobs/{job}?tab=timeline&step=5&measure={ends}", shows="measure-1"),
        "links": View(address=f"/jobs/{job}?tab=links&step=5", shows="figure-utilization"),
        "race": View(address=f"/races/{race.id}", shows="race-name"),
        "compare": View(address=f"/compare?jobs={','.join(recorded)}", shows="settings"),
    }
    wrong, come_by = {}, set()
    for name, view in pages.items():
        view.open(page)  # all figures are there, and then so much of the page is in sight as on a laptop
        page.set_viewport_size({"width": 1280, "height": 800})
        page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
        found, seen = stops(page)
        come_by |= seen
        if found:
            wrong[name] = found
    assert not wrong
    assert come_by >= {
        "measure-0", "measure-1",
        "figure-loss", "figure-throughput", "figure-timeline", "figure-utilization", "figure-heatmap",
        "figure-compare-loss",
    }  # fmt: skip


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


def test_escape_closes_what_lies_over_the_page_and_gives_the_focus_back(page: Page, client: Client) -> None:
    job = client.submit(held_spec("to be kept"))
    page.goto(f"/jobs/{job.id}")
    cancel = page.get_by_test_id("cancel")
    cancel.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Let it run")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(cancel).to_be_focused()
    assert client.job(job.id).state != "cancelled"
