"""Pointing at the utilization: what lies under the pointer is named, with its share; and panels share one time axis."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from backend.client import Client
from backend.figures.utilization import FEWEST_GROUPS
from engine.plan.units_of_measure import format_rate
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.e2e.complete import with_all_telemetry
from tests.e2e.conftest import TIMEOUT_MS
from tests.e2e.recorded import STEPS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SEED = 16
POSITIONS = 200
ATTEMPTS = 20 * POSITIONS
"""Places to choose from: most of a drawing may be empty."""
NAMED = 195
"""At least so many: at the edge of two layers a pixel belongs to either."""
FIGURES = ("utilization", "timeline", "heatmap")
PANELS = """chart => {
    const layout = chart._fullLayout, frame = chart.getBoundingClientRect();
    const axisOf = name => layout[name.replace(/^[xy]/, '$&axis')];
    return layout.meta.panels.map(panel => ({
        ...panel, left: frame.left, top: frame.top,
        across: (({_offset, _length, range}) => [_offset, _length, ...range])(axisOf(panel.x)),
        up: (({_offset, _length, range}) => [_offset, _length, ...range])(axisOf(panel.y)),
    }));
}"""
FULLEST = """chart => {
    const layout = chart._fullLayout, frame = chart.getBoundingClientRect();
    const {_offset, l2p, range} = layout.xaxis;
    for (const one of chart._fullData.filter(one => one.yaxis === 'y' && one.meta?.layers?.[0] >= 0)) {
        const ends = i => [Math.max(one.x0 + i * one.dx, range[0]), Math.min(one.x0 + (i + 1) * one.dx, range[1])];
        const shows = i => one.y[i] * (ends(i)[1] - ends(i)[0]);
        const seen = Array.from(one.y.keys()).filter(i => shows(i) > 0);
        if (!seen.length) continue;
        const at = seen.reduce((best, i) => (shows(i) > shows(best) ? i : best)), most = one.y[at];
        const before = chart._fullData.filter(other => other.yaxis === 'y' && other.stackgroup)
            .filter(other => other.index < one.index).reduce((sum, other) => sum + other.y[at], 0);
        return [frame.left + _offset + l2p((ends(at)[0] + ends(at)[1]) / 2),
            frame.top + layout.yaxis._offset + layout.yaxis.l2p(before + most / 2), one.meta.layers[0]];
    }
}"""
"""Of the first panel's first layer that has a bin in view, or a part of one: the middle of the one that shows most, and
which layer it is. A short step may have no whole bin."""
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
TOLD = f"""async id => {{
    await ({TWO_FRAMES})();
    const tip = document.querySelector(`[data-testid=${{id}}]`);
    const {{width, height}} = tip.getBoundingClientRect();
    const seen = width > 0 && height > 0 && tip.checkVisibility({{visibilityProperty: true}});
    return [seen ? tip.innerText : '', tip.dataset.layer ?? null];
}}"""
"""What a tip says when what was pointed at is drawn, and of which layer."""


def shown(page: Page, name: str) -> None:
    page.get_by_test_id(f"panel-{name}").scroll_into_view_if_needed()
    expect(page.get_by_test_id(f"figure-{name}")).to_have_attribute("data-drawn", "true")


def stacked(client: Client, job: str, panel: dict[str, Any], covered: list[int]) -> tuple[Any, Any]:
    """The API's answer for a panel, and its series from the bottom up: index and bytes of each bin."""
    answer = client.links(
        job,
        link=panel["link"],
        direction=panel["direction"],
        from_ns=covered[0],
        to_ns=covered[1],
        bins=10_000,
    )
    (series,) = answer.links
    layers = [(one.index, one.bytes) for one in series.layers]
    return answer, [*layers, (-1, series.other_bytes)]


def deep(client: Client, strategy: dict[str, Any], network: dict[str, Any]) -> str:
    """Train a network of many layers, of which the drawing shows neighbours as one, to its last telemetry: the job."""
    data = {"name": "synthetic", "options": {"shape": [3, 32, 32], "samples": 64, "classes": 10}}
    training = {"steps": 8, "global_batch": 16}
    spec = job_spec(
        f"deep {strategy['name']}",
        model={"name": "resnet32"}, data=data, strategy=strategy, training=training, network=network,
    )  # fmt: skip
    job = client.wait(client.submit(spec).id, timeout_s=150)
    assert job.state == "succeeded", job.message
    with_all_telemetry(client, job.id)
    return job.id


def names_what_is_there(page: Page, client: Client, job: str) -> set[str]:
    """Point at POSITIONS places that hold something, and compare what is named there with the API; which layers were
    named."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    # As high as the drawing, but no other one is in sight, each of which would be lit up.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/jobs/{job}?tab=links&step=5")
    shown(page, "utilization")
    meta = page.get_by_test_id("figure-utilization").evaluate("chart => chart._fullLayout.meta")
    panels = page.get_by_test_id("figure-utilization").evaluate(PANELS)
    found = [stacked(client, job, panel, meta["covered_ns"]) for panel in panels]
    assert all(answer.bin_ns == meta["bin_ns"] for answer, _ in found)
    right, wrong, names = 0, [], set()
    for _ in range(ATTEMPTS):
        if right + len(wrong) == POSITIONS:
            break
        number = chance.randrange(len(panels))
        panel, (answer, series) = panels[number], found[number]
        (left, wide, from_s, to_s), (top, high, least, most) = panel["across"], panel["up"]
        x = chance.uniform(1, wide - 1)
        ns = meta["origin_ns"] + (from_s + x / wide * (to_s - from_s)) * 1e9
        at = int((ns - answer.start_ns) // answer.bin_ns)
        if not 0 <= at < answer.bins:
            continue
        bps = [values[at] * 8e9 / answer.bin_ns for _, values in series]
        tall = min(sum(bps) / (most - least), 1.0) * high
        if tall < 1:
            continue  # empty
        up = chance.uniform(0, tall)
        below, wanted = 0.0, -1
        for (index, _), own in zip(series, bps, strict=True):
            if below + own > least + up / high * (most - least):
                wanted = index
                break
            below += own
        page.mouse.move(panel["left"] + left + x, panel["top"] + top + high - up)
        text, layers = page.evaluate(TOLD, "tip-figure-utilization")
        drawn = re.fullmatch(r"(-?\d+)(?:-(\d+))?", layers or "")
        together = range(int(drawn[1]), int(drawn[2] or drawn[1]) + 1) if drawn else range(0)
        own = sum(value for (index, _), value in zip(series, bps, strict=True) if index in together)
        names.add(layers or "nothing")
        if wanted in together and says(text, own, answer.links[0].rate_bps):
            right += 1
        else:
            wrong.append((panel["title"], at, wanted, own, layers, text))
    assert right + len(wrong) == POSITIONS, f"seed {SEED}: only so many of {ATTEMPTS} places hold anything"
    assert right >= NAMED, f"seed {SEED}: {right} of {POSITIONS}; wrong: {wrong[:8]}"
    return names


def says(text: str, bps: float, rate_bps: float | None) -> bool:
    """Whether the words have this as their first figure: a share of the rate, where one is known."""
    if rate_bps is None:
        return f" {format_rate(bps)}" in text
    found = re.search(r"([\d.]+) %", text)
    return found is not None and abs(float(found[1]) - 100 * bps / rate_bps) < 0.11


@pytest.mark.soak  # places and shares: the deep network below; a layer by itself: what is pointed at is lit up
@pytest.mark.parametrize("number", range(len(STEPS)), ids=list(STEPS))
def test_two_hundred_places_name_the_layer_that_is_there_and_its_share(
    page: Page, client: Client, recorded: list[str], number: int
) -> None:
    assert len(names_what_is_there(page, client, recorded[number])) >= 3


@pytest.mark.parametrize(
    ("strategy", "options", "network"),
    [
        ("p3", {"slice_size": 2000}, {"rate": "100Mbit"}),
        pytest.param("ring-allreduce", {}, {"rate": "100Mbit"}, marks=pytest.mark.soak),
        pytest.param("ddp", {}, {}, marks=pytest.mark.soak),
    ],
)
def test_two_hundred_places_of_a_deep_network_name_the_layers_that_share_an_area(
    page: Page, client: Client, strategy: str, options: dict[str, Any], network: dict[str, Any]
) -> None:
    names = names_what_is_there(page, client, deep(client, {"name": strategy, "options": options}, network))
    assert len(names) >= FEWEST_GROUPS
    assert any("-" in name[1:] for name in names) or strategy == "ddp", "neighbours are drawn as one"


def test_what_is_pointed_at_is_lit_up_elsewhere_and_a_click_keeps_it(page: Page, recorded: list[str]) -> None:
    page.set_viewport_size({"width": 1280, "height": 1600})
    page.goto(f"/jobs/{recorded[0]}?tab=links&step=5")
    for name in FIGURES:
        shown(page, name)
    shown(page, "utilization")
    chart = page.get_by_test_id("figure-utilization")
    place = chart.evaluate(FULLEST)
    page.mouse.move(place[0], place[1])
    expect(page.get_by_test_id("tip-figure-utilization")).to_have_attribute("data-layer", str(place[2]))
    expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-layer", str(place[2]))
    page.mouse.click(place[0], place[1])
    expect(page).to_have_url(re.compile(f"layer={place[2]}"))
    page.mouse.move(0, 0)
    expect(page.get_by_test_id("tip-figure-utilization")).to_be_hidden()
    expect(page.get_by_test_id("figure-timeline")).to_have_attribute("data-layer", str(place[2]))


def test_what_a_finger_touched_stays_named_until_it_touches_elsewhere(
    browser: Browser, server: LiveServer, recorded: list[str]
) -> None:
    context = browser.new_context(
        viewport={"width": 1280, "height": 1600}, base_url=server.url, has_touch=True
    )
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(f"/jobs/{recorded[0]}?tab=links&step=5")
    shown(page, "utilization")
    x, y, layer = page.get_by_test_id("figure-utilization").evaluate(FULLEST)
    tip = page.get_by_test_id("tip-figure-utilization")
    page.touchscreen.tap(x, y)  # the finger is lifted again
    expect(page).to_have_url(re.compile(f"layer={layer}"))
    page.evaluate(TWO_FRAMES)
    expect(tip).to_be_visible()
    expect(tip).to_have_attribute("data-layer", str(layer))
    page.get_by_test_id("panel-utilization").get_by_role("heading").tap()
    expect(tip).to_be_hidden()
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_same_time_is_at_the_same_pixel_in_all_panels(
    page: Page, recorded: list[str], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(f"/jobs/{recorded[1]}?tab=links&step=5")
    for name in FIGURES:
        shown(page, name)
    axes = [
        page.get_by_test_id(f"figure-{name}").evaluate(
            "c => [c._fullLayout.xaxis._offset, c._fullLayout.xaxis._length, ...c._fullLayout.xaxis.range]"
        )
        for name in FIGURES
    ]
    assert axes[1] == pytest.approx(axes[0])
    assert axes[2] == pytest.approx(axes[0])
