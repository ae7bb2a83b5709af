"""Link and layer: shares under the rate's line; one layer and one stretch of time selected in every figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from backend.client import Client
from engine.telemetry.definitions import DEFINITIONS
from tests.e2e.drawn import said, traces, window_of
from tests.e2e.recorded import RATE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
FIGURES = ("utilization", "timeline", "heatmap")
AREAS = """chart => chart._fullData.filter(one => one.meta?.layers && one.fillcolor)
    .map(one => [one.meta.layers, one.fillcolor.length === 7])"""
LIT_BARS = """chart => chart._fullData.filter(one => one.type === 'bar').flatMap(one =>
    Array.from(one.customdata).map((row, index) => [Array.from(row)[3], (one.marker.opacity ?? [])[index] ?? 1]))"""

FRAMES = """chart => Array.from(chart.parentElement.querySelector('.ty-frames').children).map((box, map) => {
    const axis = chart._fullLayout[['yaxis', 'yaxis2'][map]], above = chart.getBoundingClientRect().top + axis._offset;
    const {top, bottom} = box.getBoundingClientRect();
    return [axis.p2l(top - above), axis.p2l(bottom - above)];
})"""
"""The rows that the frames over the two maps are around."""


@pytest.fixture
def job(recorded: list[str]) -> str:
    """The one that moves whole layers."""
    return recorded[0]


def shown(page: Page, name: str) -> None:
    """Figures are asked for when they come into view, and then take their height."""
    page.get_by_test_id(f"panel-{name}").scroll_into_view_if_needed()
    expect(page.get_by_test_id(f"figure-{name}")).to_have_attribute("data-drawn", "true")


def brush(page: Page, name: str) -> None:
    """Drag from three to seven tenths of a figure's width."""
    shown(page, name)
    chart = page.get_by_test_id(f"figure-{name}")
    box = chart.bounding_box()
    assert box is not None
    plot = chart.evaluate(
        "c => [c._fullLayout.xaxis._offset, c._fullLayout.xaxis._length, c._fullLayout.yaxis._offset]"
    )
    at = [box["x"] + plot[0] + share * plot[1] for share in (0.3, 0.7)]
    page.mouse.move(at[0], box["y"] + plot[2] + 40)
    page.mouse.down()
    page.mouse.move(at[1], box["y"] + plot[2] + 42, steps=6)
    page.mouse.up()


def test_a_layer_chosen_in_one_place_is_lit_up_in_all(page: Page, client: Client, job: str) -> None:
    # Undemanded it shows the training, not how the processes got to know one another.
    first = client.figure(job, "timeline", step=0).layout.meta["origin_ns"]
    assert client.figure(job, "utilization").layout.meta["from_ns"] == first
    page.goto(f"/jobs/{job}?tab=links&step=5")
    wanted = client.figure(job, "utilization", step=5)
    areas = [trace for trace in wanted.data if trace.meta and trace.meta["layers"][0] >= 0]
    assert areas
    for entry, area in zip(traces(page, "figure-utilization"), wanted.data, strict=True):
        assert entry["name"] == area.name
        assert entry["y"] == pytest.approx(said(area.y), nan_ok=True)
    rates = page.get_by_test_id("figure-utilization").evaluate(
        "chart => chart._fullLayout.shapes.map(s => s.y0)"
    )
    assert set(rates) == {RATE}

    layer = areas[0].meta["layers"][0]
    row = page.get_by_test_id("plan-table").locator(f"tr[data-layer='{layer}']")
    row.click()
    expect(page).to_have_url(re.compile(f"layer={layer}"))
    page.mouse.move(0, 0)
    for name in FIGURES:
        shown(page, name)
        expect(page.get_by_test_id(f"figure-{name}")).to_have_attribute("data-layer", str(layer))
    areas_drawn = page.get_by_test_id("figure-utilization").evaluate(AREAS)
    assert {opaque for _, opaque in areas_drawn} == {True, False}
    assert all(opaque == (first <= layer <= last) for (first, last), opaque in areas_drawn)
    bars = page.get_by_test_id("figure-timeline").evaluate(LIT_BARS)
    assert {at for at, opacity in bars if opacity == 1} == {layer}
    assert any(at != layer for at, _ in bars)
    frames = page.get_by_test_id("figure-heatmap").evaluate(FRAMES)
    assert frames == [pytest.approx([layer - 0.5, layer + 0.5], abs=0.05)] * 2

    page.reload()
    shown(page, "timeline")
    expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-layer", str(layer))
    page.get_by_test_id("tab-plan").click()
    expect(page.locator(f"tr[data-layer='{layer}']")).to_have_attribute("data-layer", str(layer))
    page.get_by_test_id("tab-links").click()
    shown(page, "timeline")
    expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-layer", str(layer))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("layer="))
    for name in FIGURES:
        shown(page, name)
        expect(page.get_by_test_id(f"figure-{name}")).not_to_have_attribute("data-layer", str(layer))


def test_pointing_lights_a_layer_up_for_as_long(page: Page, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links&step=5")
    for name in FIGURES:
        shown(page, name)
    row = page.get_by_test_id("plan-table").locator("tr[data-layer]").last
    layer = row.get_attribute("data-layer")
    row.hover()
    expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-layer", str(layer))
    page.mouse.move(0, 0)
    expect(page.get_by_test_id("figure-timeline")).not_to_have_attribute("data-layer", str(layer))
    expect(page).not_to_have_url(re.compile("layer="))


def test_a_figure_out_of_sight_is_lit_up_when_it_is_seen(page: Page, job: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 400})
    page.goto(f"/jobs/{job}?tab=links&step=5")
    for name in FIGURES:
        shown(page, name)
    row = page.get_by_test_id("plan-table").locator("tr[data-layer]").last
    layer = str(row.get_attribute("data-layer"))
    row.click()
    expect(page.get_by_test_id("figure-heatmap")).to_have_attribute("data-layer", layer)
    expect(page.get_by_test_id("figure-utilization")).not_to_have_attribute("data-layer", layer)
    shown(page, "utilization")
    expect(page.get_by_test_id("figure-utilization")).to_have_attribute("data-layer", layer)


def test_the_layer_is_chosen_by_keyboard(page: Page, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links&step=5")
    for name in FIGURES:  # while they are drawn, a key overtakes the timer with which the list begins anew
        shown(page, name)
    field = page.get_by_test_id("layer")
    field.focus()
    expect(field).to_have_attribute("aria-expanded", "true")
    for at in range(2):
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("option").nth(at)).to_have_attribute("data-combobox-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("layer=1$"))


def test_a_brush_selects_time_everywhere(page: Page, client: Client, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links&step=5")
    brush(page, "utilization")
    expect(page).to_have_url(re.compile(r"from_ns=\d+"))
    found = window_of(page)
    step = client.figure(job, "utilization", step=5).layout.meta
    whole = step["to_ns"] - step["from_ns"]
    assert found["to_ns"] - found["from_ns"] == pytest.approx(0.4 * whole, rel=0.1)
    for name in FIGURES:
        shown(page, name)
        expected = client.figure(job, name, step=5, **found).layout.xaxis.range
        page.wait_for_function(
            "([id, wanted]) => document.querySelector(`[data-testid=${id}]`)._fullLayout.xaxis.range"
            ".every((edge, i) => Math.abs(edge - wanted[i]) < 1e-6)",
            arg=[f"figure-{name}", list(expected)],
        )
    page.get_by_test_id("all-time").click()
    expect(page).not_to_have_url(re.compile("from_ns"))


def test_a_selected_stretch_has_a_table_that_can_be_taken_along(page: Page, client: Client, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links&step=5")
    brush(page, "utilization")
    expect(page).to_have_url(re.compile(r"from_ns=\d+"))
    table = page.get_by_test_id("stretch-table")
    expect(table).to_be_visible()
    found = client.stretch(job, **window_of(page))
    assert any(row.index >= 0 for row in found.layers)
    head = table.locator("thead tr").first.locator("th").all_inner_texts()
    assert len(head) == 2 + len(found.links)
    for row in found.layers:
        cells = table.locator(f"tr[data-layer='{row.index}']").locator("th, td").all_inner_texts()
        assert cells[0] == ("belongs to no layer" if row.index < 0 else row.layer_name)
        assert bool(cells[1]) == bool(row.waits)
        for one in row.moved:
            said = re.search(r"([\d.]+) %", cells[2 + one.link])
            assert (said is None) == (one.share is None)
            assert one.share is None or float(said[1]) == pytest.approx(100 * one.share, abs=0.051)
    with page.expect_download() as download:
        page.get_by_test_id("stretch").get_by_test_id("table-csv").click()
    lines = download.value.path().read_text().splitlines()
    assert download.value.suggested_filename == "recorded-parameter-server-stretch.csv"
    assert len(lines) == 2 + len(found.layers)
    page.get_by_test_id("all-time").click()
    expect(table).to_have_count(0)


def test_a_stretch_is_of_the_links_that_are_drawn_also_where_an_address_names_one_that_is_gone(
    page: Page, client: Client, job: str
) -> None:
    step = client.figure(job, "utilization", step=5).layout.meta
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/stretch?" in request.url else None)
    page.goto(f"/jobs/{job}?tab=links&interfaces=0:gone&from_ns={step['from_ns']}&to_ns={step['to_ns']}")
    expect(page.get_by_test_id("stretch-table")).to_be_visible()
    shown(page, "utilization")
    drawn = page.get_by_test_id("figure-utilization").evaluate("chart => chart._fullLayout.meta.shown")
    assert {tuple(parse_qs(urlsplit(url).query)["link"]) for url in asked} == {(",".join(drawn),)}


def test_time_is_selected_where_a_layer_was_lit_up_before(page: Page, job: str) -> None:
    """Its frames are gone, and plotly.js must not miss them."""
    page.goto(f"/jobs/{job}?tab=links&step=5")
    for name in FIGURES:
        shown(page, name)
    row = page.get_by_test_id("plan-table").locator("tr[data-layer]").last
    for _ in range(2):
        row.hover()
        expect(page.get_by_test_id("figure-heatmap")).to_have_attribute("data-layer", re.compile(r"\d"))
        page.mouse.move(0, 0)
        expect(page.get_by_test_id("figure-heatmap")).not_to_have_attribute("data-layer", re.compile(r"\d"))
    brush(page, "heatmap")
    expect(page).to_have_url(re.compile(r"from_ns=\d+"))


def test_another_strategy_is_launched_from_here_filled_in(page: Page, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links")
    page.get_by_test_id("another-strategy").click()
    expect(page.get_by_test_id("field-name")).to_have_value("recorded parameter-server again")
    expect(page.get_by_test_id("field-network.rate")).to_have_value("20Mbit")


def test_the_links_that_are_drawn_are_chosen(page: Page, job: str) -> None:
    """The machine's own interface is one of them, and the address keeps the choice."""
    page.goto(f"/jobs/{job}?tab=links")
    shown(page, "utilization")
    select = page.get_by_test_id("link-select")
    chart = page.get_by_test_id("figure-utilization")
    every = chart.evaluate("chart => chart._fullLayout.meta.links.map(link => link.value)")
    assert every[-1] == "0:lo"
    assert len(every) > 2
    page.goto(f"/jobs/{job}?tab=links&interfaces=0:lo")
    shown(page, "utilization")
    expect(page.get_by_test_id("panel-utilization")).to_contain_text("of the whole machine")
    assert chart.evaluate("chart => chart._fullLayout.meta.shown") == ["0:lo"]
    select.click()
    page.get_by_role("option", name=re.compile("worker 0")).first.click()
    expect(page).to_have_url(re.compile("interfaces=0%3Alo,0%3Atransport|interfaces=0:lo,0:transport"))


def test_what_a_figures_metrics_mean_is_said_beside_its_title(page: Page, job: str) -> None:
    page.goto(f"/jobs/{job}?tab=links")
    sign = page.get_by_test_id("panel-utilization").get_by_role("img", name=re.compile("Layer utilization: "))
    sign.hover()
    tip = page.get_by_role("tooltip").filter(has_text="Link rate: ")
    expect(tip).to_contain_text(DEFINITIONS["link rate"])
    expect(tip).to_contain_text(DEFINITIONS["layer utilization"])
