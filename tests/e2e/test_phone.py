"""Every page can be read on a phone: nothing sticks out sideways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.schemas.races import Suggestion
from backend.services.suggestions import suggestions
from tests.backend.test_race_curves import FC6, FULL, PORT, ranking
from tests.backend.test_race_pure import race
from tests.e2e.launching import expect_the_plan, open_form
from tests.e2e.taken import downloaded
from tests.e2e.views import SCREEN_PX, TABS
from tests.e2e.visited import PHONES, SCROLLED

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.e2e.visited import Visited

pytestmark = pytest.mark.browser
# What of the header one cannot see whole: beyond the screen, cut by what it stands in, or in an ellipsis.
CUT = """() => Array.from(document.querySelectorAll(
        'header a:not(.ty-skip), header button, [data-testid=connection] *'))
    .filter(one => {
        const {left, right, top, bottom, width} = one.getBoundingClientRect();
        const frame = (one.closest('nav') ?? one.closest('header')).getBoundingClientRect();
        return width === 0 || left < Math.max(0, frame.left) || right > Math.min(innerWidth, frame.right)
            || top < frame.top || bottom > frame.bottom || one.scrollWidth > Math.ceil(width);
    })
    .map(one => one.textContent || one.ariaLabel)"""


# Of badges: the texts that end in an ellipsis.
ELLIPSES = """badges => badges.flatMap(badge => [badge, ...badge.children])
    .filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"""


@pytest.mark.parametrize("width", PHONES)
def test_the_header_is_whole_on_a_phone(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": SCREEN_PX})
    page.goto("/race")  # which has "how to read this"
    expect(page.get_by_test_id("nav-launch")).to_be_visible()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "live")
    expect(page.get_by_test_id("how-to-read-toggle")).to_be_visible()
    assert page.evaluate(CUT) == []


@pytest.mark.timeout(900)  # the visit to all pages: on slow cores it takes more than the usual 300 s
def test_no_page_is_wider_than_a_phone(visited: Visited) -> None:
    """Each is opened on the narrowest; then the screen becomes a wider one's, as when it is turned."""
    assert visited.tabs >= set(TABS)
    assert not visited.wide
    assert not visited.hidden_tabs


def test_a_predicted_memory_and_where_codecs_pay_can_be_read_on_a_phone(page: Page) -> None:
    """No column is cut where layers' names are short."""
    page.set_viewport_size({"width": max(PHONES), "height": SCREEN_PX})
    open_form(page, "how much", strategy="p3")
    expect_the_plan(page)
    for question, ask, name in (
        ("memory", "predict-memory", "memory-table"),
        ("codecs", "ask-codecs", "codecs-table"),
    ):
        page.get_by_test_id(f"before-{question}").click()
        page.get_by_test_id(ask).click()
        table = page.get_by_test_id(name)
        expect(table.get_by_role("row")).not_to_have_count(0)
        assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth"), name
    expect(page.get_by_test_id("codecs-table").get_by_role("row", name="int8")).to_contain_text("below")


def test_the_largest_batch_is_found_from_the_form(page: Page) -> None:
    """For each way to treat activations, or with the reason why not."""
    open_form(page, "how many", strategy="p3")
    expect_the_plan(page)
    page.get_by_test_id("before-batch").click()
    page.get_by_test_id("largest-memory").fill("64MiB")
    page.get_by_test_id("largest-memory").press("Enter")
    rows = page.get_by_test_id("largest-table").get_by_role("row")
    expect(rows).to_have_count(5, timeout=60_000)
    expect(rows.nth(1)).to_contain_text("keep")
    expect(rows.nth(4)).to_contain_text("budget (")
    page.get_by_test_id("draw-largest").click()
    expect(page.get_by_test_id("figure-largest")).to_have_attribute("data-drawn", "true", timeout=60_000)
    taken = downloaded(page, page.get_by_test_id("figure-csv"), "csv").read_text(encoding="utf-8")
    assert all(way in taken for way in ("keep", "swap", "recompute", "budget ("))
    downloaded(page, page.get_by_test_id("figure-svg"), "svg")
    page.get_by_test_id("largest-memory").fill("0")
    page.get_by_test_id("find-largest").click()
    expect(page.get_by_test_id("largest-problem")).to_contain_text("is not a size")


# Whether a line of a name lies under the box that selects its row.
UNDER = """row => {
    const box = row.querySelector('input[type=checkbox]').getBoundingClientRect();
    const lines = Array.from(row.querySelector('a.ty-link').getClientRects());
    return lines.some(({right, left, top, bottom}) =>
        right > box.left && left < box.right && bottom > box.top && top < box.bottom);
}"""


def test_the_box_that_selects_a_job_lies_beside_its_name(page: Page, recorded: list[str]) -> None:
    def with_long_names(route: Route) -> None:
        listed = route.fetch().json()
        for job in listed["items"]:
            job["name"] = "a job whose name is so long that it fills more than one line of a phone"
        route.fulfill(json=listed)

    page.route("**/api/v1/jobs?**", with_long_names)
    for width in PHONES:
        page.set_viewport_size({"width": width, "height": SCREEN_PX})
        page.goto("/jobs?text=recorded")
        row = page.get_by_test_id(f"job-row-{recorded[0]}")
        expect(row).to_contain_text("so long that")
        assert not row.evaluate(UNDER)


def test_what_limits_a_member_can_be_read_on_a_phone(page: Page, raced: str) -> None:
    """Also where it is the longest word, and what to try next the longest sentence; the race's link limits its
    members, whatever this machine does."""

    def by_processors(route: Route) -> None:
        shown = route.fetch().json()
        for limit in (one["limit"] for each in shown["rankings"] for one in each["standings"]):
            if limit is not None:
                limit.update(kind="processors", crowded=True)
        shown["next"] = [one.model_dump(mode="json") for one in longest_suggestions()]
        route.fulfill(json=shown)

    page.route(f"**/api/v1/races/{raced}", by_processors)
    page.set_viewport_size({"width": min(PHONES), "height": SCREEN_PX})
    page.goto(f"/races/{raced}")
    limits = page.get_by_test_id("limit")
    expect(limits.first).to_have_text("processors")
    assert limits.evaluate_all(ELLIPSES) == []
    expect(page.get_by_test_id("race-next")).to_have_text([one.text for one in longest_suggestions()])
    assert page.evaluate(SCROLLED) <= min(PHONES)
    limits.first.focus()
    expect(page.get_by_role("tooltip")).to_contain_text(
        "Other programs had more of this machine's processors"
    )


def longest_suggestions() -> list[Suggestion]:
    """Of each kind the one that takes most room, as the service says it."""
    times = {"p3": 10.0, "ddp": 20.0}
    crowded = [ranking({}, times, limit=FULL.model_copy(update={"crowded": True}))]
    ports, plain = [ranking({}, times, limit=PORT)], [ranking({}, times, limit=FULL)]
    spec = race("p3", "ddp")
    return [
        *suggestions(spec, ports, [], FC6, ended=True),
        *suggestions(spec, crowded, [], None, ended=True),
        *suggestions(spec, plain, [], None, ended=True),
    ]
