"""Why is it waiting? A red wait is chosen; what ended it lights up, and a panel says what happened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.drawn import said, traces

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
LIT = "what ended the wait"
# A bar's place on the screen, by its number in the trace of that name.
CLICK = """(chart, wanted) => {
    const trace = chart._fullData.find(one => one.name === 'exposed wait' && one.type === 'bar');
    const index = Array.from(trace.customdata).findIndex(
        row => wanted.every((value, place) => Array.from(row)[place + 1] === value));
    const [x, y] = [chart._fullLayout.xaxis, chart._fullLayout.yaxis];
    const box = chart.getBoundingClientRect();
    const middle = trace.base[index] + trace.x[index] / 2;
    return [box.left + x._offset + x.l2p(middle), box.top + y._offset + y.l2p(trace.y[index])];
}"""


def wait_of(client: Client, job_id: str, step: int) -> tuple[dict[str, int], Any]:
    """The longest wait of a step as the figure lists it, and its explanation."""
    wait = client.figure(job_id, "timeline", step=step).layout.meta["waits"][0]
    return wait, client.why(job_id, wait["party"], wait["step"], wait["layer"], wait["unit"])


def test_a_red_wait_of_the_timeline_is_explained(page: Page, client: Client, recorded: list[str]) -> None:
    job = recorded[0]
    wait, why = wait_of(client, job, 5)
    assert sum(part.to_ns - part.from_ns for part in why.stretches) == why.end_ns - why.start_ns == wait["ns"]
    assert why.receive is not None
    assert why.send is not None
    assert (why.send.party, why.send.queued_ns) == (why.receive.peer, why.receive.queued_ns)

    page.goto(f"/jobs/{job}?tab=timeline&step=5")
    chart = page.get_by_test_id("figure-timeline")
    expect(chart).to_have_attribute("data-drawn", "true")
    identity = [wait[name] for name in ("party", "step", "layer", "unit")]
    page.mouse.click(*chart.evaluate(CLICK, identity))
    text = ",".join(map(str, identity))
    expect(page).to_have_url(re.compile(rf"step=5&why={text}$"))
    expect(page.get_by_test_id("why-text")).to_have_text(f"{why.worker} {why.text}")

    # What lights up is what the API says, and what it says begins with the message that ended the wait.
    drawn = lit(page, "figure-timeline")
    figure = client.figure(job, "timeline", step=5, why=text)
    wanted = [at for trace in figure.data if trace.name == LIT for at in said(trace.base)]
    assert drawn == pytest.approx(sorted(wanted))
    origin = figure.layout.meta["origin_ns"]
    for message in (why.receive, why.send):
        assert min(abs(at - (message.start_ns - origin) / 1e9) for at in drawn) < 1e-6

    page.reload()
    expect(page.get_by_test_id("why-text")).to_have_text(f"{why.worker} {why.text}")
    closed_by_escape(page)
    # Also where the panel came after the page, and the page has other uses for the key.
    expect(chart).to_have_attribute("data-drawn", "true")  # there is nothing to measure before
    page.keyboard.press("m")
    expect(page.get_by_test_id("measure-text")).to_be_visible()
    page.get_by_test_id("longest-waits").get_by_role("button").first.click()
    expect(page.get_by_test_id("why-panel")).to_be_visible()
    closed_by_escape(page)
    expect(page.get_by_test_id("measure-text")).to_be_visible()
    expect(page).to_have_url(re.compile("step=5"))


def test_in_a_race_a_wait_is_chosen_without_a_pointer(
    page: Page, client: Client, recorded: list[str]
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    race = client.same_step(recorded)
    page.goto(f"/race?jobs={','.join(recorded)}&step={race.step}")
    button = page.get_by_test_id("longest-waits").get_by_role("button").first
    expect(button).to_have_text(re.compile(r", for \d+ \(Linear\)$"))  # a number alone says nothing
    button.focus()
    names = page.evaluate(
        "[...document.querySelectorAll('main button')].map(one => one.ariaLabel ?? one.textContent)"
    )
    assert len(names) > len(race.figure["layout"]["meta"]["waits"])
    assert len(set(names)) == len(names), "two buttons have one name"
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    wait = race.figure["layout"]["meta"]["waits"][0]
    job = recorded[wait["job"]]
    why = client.why(job, wait["party"], wait["step"], wait["layer"], wait["unit"])
    expect(page.get_by_test_id("why-text")).to_have_text(f"{why.worker} {why.text}")
    expect(page).to_have_url(re.compile(f"why_job={job}"))
    expect(page.get_by_test_id("figure-race")).to_be_visible()
    page.wait_for_function(
        "name => document.querySelector('[data-testid=figure-race]')._fullData?.some(one => one.name === name)",
        arg=LIT,
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone scrolls sideways"
    page.get_by_test_id("step-previous").click()
    expect(page.get_by_test_id("why-panel")).to_have_count(0)
    page.get_by_test_id("longest-waits").get_by_role("button").first.click()
    expect(page.get_by_test_id("why-panel")).to_be_visible()
    closed_by_escape(page)


def closed_by_escape(page: Page) -> None:
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("why-panel")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("why="))


def lit(page: Page, figure: str) -> list[float]:
    """Where the lit bars begin, once there are any."""
    page.wait_for_function(
        "([figure, name]) => document.querySelector(`[data-testid=${figure}]`)._fullData"
        "?.some(one => one.name === name)",
        arg=[figure, LIT],
    )
    assert any(entry["name"] == LIT for entry in traces(page, figure))
    starts = "(chart, name) => chart._fullData.filter(one => one.name === name).flatMap(one => Array.from(one.base))"
    found: list[float] = page.get_by_test_id(figure).evaluate(starts, LIT)
    return sorted(found)
