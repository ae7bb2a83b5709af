"""The timeline's tools: the wheel zooms around the pointer, a layer is found, time is measured; by keyboard, too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from backend.client import Client
from tests.e2e.drawn import window_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
STEP = 5


@pytest.fixture
def job(recorded: list[str]) -> str:
    """The one that moves whole layers."""
    return recorded[0]


def opened(page: Page, job: str, query: str = "") -> Locator:
    page.goto(f"/jobs/{job}?tab=timeline&step={STEP}{query}")
    chart = page.get_by_test_id("figure-timeline")
    expect(chart).to_have_attribute("data-drawn", "true")
    return chart


def measured(page: Page) -> list[int]:
    found = re.search(r"measure=(-?\d+)(?:,|%2C)(-?\d+)", page.url)
    assert found is not None
    return [int(one) for one in found.groups()]


def test_the_wheel_zooms_around_the_pointer(page: Page, job: str) -> None:
    chart = opened(page, job)
    box = chart.bounding_box()
    assert box is not None
    axis = chart.evaluate(
        "c => (({_offset, _length, range}) => [_offset, _length, ...range])(c._fullLayout.xaxis)"
    )
    y = chart.evaluate("c => c._fullLayout.yaxis._offset + c._fullLayout.yaxis._length / 2")
    pointed = axis[2] + 0.25 * (axis[3] - axis[2])
    page.mouse.move(box["x"] + axis[0] + 0.25 * axis[1], box["y"] + y)
    for _ in range(8):  # a little zoom asks for nothing new
        page.mouse.wheel(0, -100)
    expect(page).to_have_url(re.compile(r"from_ns=\d+"))
    origin = chart.evaluate("c => c._fullLayout.meta.origin_ns")
    found = window_of(page)
    low, high = ((found[end] - origin) / 1e9 for end in ("from_ns", "to_ns"))
    assert high - low < 0.7 * (axis[3] - axis[2])
    assert (pointed - low) / (high - low) == pytest.approx(0.25, abs=0.02)


def test_a_layer_is_found_lit_up_and_its_events_are_gone_through(
    page: Page, client: Client, job: str
) -> None:
    chart = opened(page, job)
    events = client.events(job, step_from=STEP, step_to=STEP, layer=0)
    assert len(events.kind) > 1
    page.keyboard.press("/")
    field = page.get_by_test_id("layer")
    expect(field).to_be_focused()
    page.get_by_role("option").first.click()
    expect(page).to_have_url(re.compile("layer=0"))
    expect(chart).to_have_attribute("data-layer", "0")
    expect(page.get_by_test_id("layer-found")).to_contain_text(f"1 of {len(events.kind)}: ")
    expect(page).to_have_url(re.compile(r"from_ns="))
    expect(chart).to_be_focused()  # N and P are no letters of the field
    for number, key in ((2, "n"), (3, "n"), (2, "p")):
        page.keyboard.press(key)
        expect(page.get_by_test_id("layer-found")).to_contain_text(f"{number} of {len(events.kind)}: ")
        middle = (events.start_ns[number - 1] + events.end_ns[number - 1]) / 2
        page.wait_for_function(
            "middle => { const at = new URL(location).searchParams;"
            " return Math.abs((+at.get('from_ns') + +at.get('to_ns')) / 2 - middle) < 2; }",
            arg=middle,
        )
    found = window_of(page)
    assert found["from_ns"] < events.start_ns[1]
    assert events.end_ns[1] < found["to_ns"]
    page.reload()
    expect(chart).to_have_attribute("data-layer", "0")
    expect(page.get_by_test_id("layer-found")).to_have_text(f"{len(events.kind)} events in step {STEP}")
    page.keyboard.press("n")
    expect(page.get_by_test_id("layer-found")).to_contain_text(f"1 of {len(events.kind)}: ")
    page.keyboard.press("ArrowLeft")  # in another step one has gone to no event
    before = len(client.events(job, step_from=STEP - 1, step_to=STEP - 1, layer=0).kind)
    expect(page.get_by_test_id("layer-found")).to_have_text(f"{before} events in step {STEP - 1}")
    expect(page).not_to_have_url(re.compile("from_ns="))


def test_time_between_two_points_is_measured(page: Page, job: str) -> None:
    chart = opened(page, job)
    page.keyboard.press("m")
    text = page.get_by_test_id("measure-text")
    expect(text).to_be_visible()
    # Who came by keyboard moves a line next, and no arrow key goes to another step and throws the measure away.
    expect(page.get_by_test_id("measure-0")).to_be_focused()
    first = measured(page)
    page.get_by_test_id("measure-0").blur()
    page.keyboard.press("ArrowLeft")
    assert measured(page) == first
    meta = chart.evaluate("c => c._fullLayout.meta")
    whole = meta["to_ns"] - meta["from_ns"]
    assert first[1] - first[0] == pytest.approx(whole / 3, abs=2)
    expect(text).to_have_text(re.compile(r"^[\d.]+ (ms|µs)$"))

    end = page.get_by_test_id("measure-1")
    box = end.bounding_box()
    assert box is not None
    length = chart.evaluate("c => c._fullLayout.xaxis._length")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 60, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_function("before => !location.href.includes(before)", arg=str(first[1]))
    dragged = measured(page)
    assert dragged[0] == first[0]
    assert dragged[1] - first[1] == pytest.approx(60 / length * whole, rel=0.05)
    assert window_of(page) == {}, "a line is dragged, time is not selected"

    page.get_by_test_id("measure-0").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => !location.href.includes(before)", arg=str(first[0]))
    moved = measured(page)
    assert moved[0] - first[0] == pytest.approx(whole / 100, rel=0.01)
    said = re.fullmatch(r"([\d.]+) (ms|µs)", text.inner_text())
    assert said is not None
    assert float(said[1]) * {"ms": 1e6, "µs": 1e3}[said[2]] == pytest.approx(moved[1] - moved[0], rel=1e-3)

    page.reload()
    expect(text).to_have_text(said[0])
    page.keyboard.press("Escape")
    expect(text).to_have_count(0)
    expect(page).not_to_have_url(re.compile("measure="))


def test_two_clicks_measure_what_lies_between(page: Page, job: str) -> None:
    """They explain no wait meanwhile, and a third one begins anew."""
    chart = opened(page, job)
    page.keyboard.press("m")
    expect(page.get_by_test_id("measure-hint")).to_contain_text("click two points")
    meta = chart.evaluate("c => c._fullLayout.meta")
    left, length = chart.evaluate("c => [c._fullLayout.xaxis._offset, c._fullLayout.xaxis._length]")
    box = chart.bounding_box()
    assert box is not None
    whole, y = meta["to_ns"] - meta["from_ns"], box["y"] + box["height"] / 2

    def click(share: float) -> list[int]:
        before = "{},{}".format(*measured(page))
        page.mouse.click(box["x"] + left + share * length, y)
        page.wait_for_function(
            "before => new URL(location).searchParams.get('measure') !== before", arg=before
        )
        return measured(page)

    at = [meta["from_ns"] + share * whole for share in (0.3, 0.7, 0.5)]
    near = whole / length * 2
    assert click(0.3) == [pytest.approx(at[0], abs=near)] * 2
    assert click(0.7) == [pytest.approx(at[0], abs=near), pytest.approx(at[1], abs=near)]
    expect(page.get_by_test_id("measure-text")).to_be_visible()
    assert click(0.5) == [pytest.approx(at[2], abs=near)] * 2
    expect(page.get_by_test_id("why-panel")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("why="))
    assert window_of(page) == {}, "a click selects no time"


def test_enter_takes_the_first_layer_that_matches(page: Page, job: str) -> None:
    chart = opened(page, job)
    page.keyboard.press("/")
    field = page.get_by_test_id("layer")
    expect(field).to_be_focused()
    page.get_by_role("option").first.wait_for()
    name = page.get_by_role("option").last.inner_text()
    field.fill(name)
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(field).to_have_value(name)
    expect(page).to_have_url(re.compile(r"layer=[1-9]"))
    expect(chart).to_be_focused()


def test_what_is_measured_stays_where_it_can_be_reached(page: Page, job: str) -> None:
    chart = opened(page, job)
    meta = chart.evaluate("c => c._fullLayout.meta")
    low, high = meta["from_ns"], meta["to_ns"]
    least = low + (high - low) // 1000  # nearer to the edge than an arrow key moves
    chart = opened(page, job, f"&measure={least},{high}")
    end, text = page.get_by_test_id("measure-0"), page.get_by_test_id("measure-text")
    end.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("before => !location.href.includes(before)", arg=str(least))
    assert measured(page) == [pytest.approx(low, abs=2), high]
    expect(end).to_be_focused()
    expect(end).to_be_visible()

    chart = opened(page, job, f"&measure={high + 1000},{high + 2000}")
    expect(page.get_by_test_id("measure")).to_be_attached()
    expect(text).to_have_count(0)

    opened(page, job, f"&measure={least},{high}")
    expect(text).to_be_visible()
    page.keyboard.press(
        "ArrowLeft"
    )  # nobody loses what is measured to another step, which has a time of its own
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(rf"step={STEP - 1}\b"))
    expect(page).not_to_have_url(re.compile("measure="))
    expect(page.get_by_test_id("measure")).to_have_count(0)
