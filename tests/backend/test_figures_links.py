"""Utilization and heat map: every byte is drawn once, under the right layer, and nothing is a share of an
unknown rate."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backend.db import Database
from backend.figures.bins import level_for
from backend.figures.counted import counted_bytes_per_step
from backend.figures.heatmap import heatmap
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.timeline import timeline
from backend.figures.utilization import utilization
from engine.telemetry.events import Kind
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.recorded_run import LAYERS, Run, record_run


@pytest.fixture(scope="module")
def run(database: Database) -> Run:
    return record_run(database, "p3", priority=True, slices=4)


def test_stacked_shares_are_the_links_bytes(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), FigureRequest()))
    meta = content["layout"]["meta"]
    assert meta["bin_ns"] == 10_000_000
    panels = [(party, kind) for party in range(3) for kind in (Kind.SEND, Kind.RECEIVE)]
    for row, (party, kind) in enumerate(panels, start=1):
        drawn = {
            t["name"]: float(column(t["y"]).sum()) * meta["bin_ns"] / 8e9
            for t in traces(content, "scatter")
            if t.get("stackgroup") == f"s{row}"
        }
        own = [e for e in run.events if e["party"] == party and e["kind"] == kind]
        for index, layer in enumerate(LAYERS):
            recorded = sum(e["bytes"] for e in own if e["layer"] == index)
            assert drawn[layer] == pytest.approx(recorded, rel=1e-5)
        total = sum(e["bytes"] for e in own)
        assert drawn["other"] == pytest.approx(0.04 * total, rel=0.1)  # what the interface counts beyond them


def test_what_the_links_counted_is_known_for_a_step(database: Database, run: Run) -> None:
    sent = sum(event["bytes"] for event in run.events if event["kind"] == Kind.SEND)
    with database.read() as session:
        source = Source(session, run.job_id)
        found = counted_bytes_per_step(source, 2.0)
        assert found == pytest.approx(2 * 1.04 * sent / (source.last_step() + 1), rel=0.03)


def test_a_known_rate_is_the_hundred_percent(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), FigureRequest()))
    axis = content["layout"]["yaxis"]
    assert axis["ticktext"] == ["0", "50 %", "100 %"]
    assert column(axis["tickvals"]).tolist() == [0, 150e6, 300e6]
    assert "limit 300 Mbit/s, software-limited" in notes(content)
    assert {shape["y0"] for shape in content["layout"]["shapes"]} == {300_000_000}


def test_a_panel_says_whose_it_is_and_why_a_bin_holds_more_than_the_rate_allows(
    database: Database, run: Run
) -> None:
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), FigureRequest()))
    panels = content["layout"]["meta"]["panels"]
    assert [(one["y"], one["link"], one["direction"]) for one in panels[:3]] == [
        ("y", "0:transport", "send"), ("y2", "0:transport", "receive"), ("y3", "1:transport", "send"),
    ]  # fmt: skip
    (key,) = [note for note in content["layout"]["annotations"] if note.get("name") == "key"]
    assert (key["x"], key["xanchor"]) == (0, "left"), "plotly.js has its tools on the right"
    assert {(one["rate_bps"], one["by_size"]) for one in panels} == {(300_000_000, False)}
    assert panels[4]["title"] == "server 0 sends"
    titles = [note["text"] for note in content["layout"]["annotations"] if note.get("name") != "key"]
    bursts = []
    for panel, title in zip(panels, titles, strict=True):
        own = [t for t in traces(content, "scatter") if t.get("stackgroup") and t["yaxis"] == panel["y"]]
        most = max(sum(column(t["y"]) for t in own)) / panel["rate_bps"]
        bursts.append(most > 1.005)
        assert title.endswith(f"; fullest bin shown, 10 ms wide: {most:.0%}, a burst") == bursts[-1]
    assert any(bursts)
    assert {one["declared"] for one in panels} == {False}


def test_above_a_rate_that_was_only_declared_the_link_may_be_faster(
    database: Database, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.read() as session:
        source = Source(session, run.job_id)
        declared = [replace(link, rate_source="declared") for link in source.links()]
        monkeypatch.setattr(source, "links", lambda: declared)
        content = answer(utilization(source, FigureRequest()))
    titles = [note["text"] for note in content["layout"]["annotations"] if note.get("name") != "key"]
    assert any(title.endswith("%, a burst, or the link is faster than declared") for title in titles)
    assert {one["declared"] for one in content["layout"]["meta"]["panels"]} == {True}


def test_the_fullest_bin_is_one_of_those_in_view(database: Database, run: Run) -> None:
    """What is drawn beside them, for panning, does not count, and wider bins say that they are wider."""
    start, end = run.starts[0, 5], run.starts[0, 6]
    step = FigureRequest(from_ns=start, to_ns=end)
    with database.read() as session:
        source = Source(session, run.job_id)
        close = answer(utilization(source, step))
        far = answer(
            utilization(source, FigureRequest(width=240, from_ns=start - 40 * (end - start), to_ns=end))
        )
    from_s, to_s = close["layout"]["xaxis"]["range"]
    for panel, title in zip(close["layout"]["meta"]["panels"], titles_of(close), strict=True):
        own = [t for t in traces(close, "scatter") if t.get("stackgroup") and t["yaxis"] == panel["y"]]
        x = own[0]["x0"] + np.arange(len(column(own[0]["y"]))) * own[0]["dx"]
        inside = (x > from_s - own[0]["dx"]) & (x < to_s)
        most = sum(column(t["y"]) for t in own)[inside].max() / panel["rate_bps"]
        said = re.search(r"fullest bin shown, 10 ms wide: (\d+)%", title)
        assert (most > 1.005) == (said is not None)
        assert said is None or said[1] == f"{100 * most:.0f}"
    assert far["layout"]["meta"]["bin_ns"] > 10_000_000
    wide = round(far["layout"]["meta"]["bin_ns"] / 1e6)
    assert all(f"; peak {wide} ms: " in title for title in titles_of(far) if "peak" in title)


def titles_of(content: dict[str, Any]) -> list[str]:
    return [note["text"] for note in content["layout"]["annotations"] if note.get("name") != "key"]


@pytest.mark.parametrize("width", [390, 1280])
def test_panels_below_one_another_have_the_same_margins(database: Database, run: Run, width: int) -> None:
    request = FigureRequest(width=width)
    with database.read() as session:
        source = Source(session, run.job_id)
        far = FigureRequest(width=width, from_ns=0, to_ns=10**12, layer=0)
        layouts = [
            answer(figure)["layout"]
            for figure in (
                utilization(source, request), timeline(source, request), heatmap(source, request),
                timeline(source, far),
            )
        ]  # fmt: skip
    assert len({(layout["margin"]["l"], layout["margin"]["r"]) for layout in layouts}) == 1
    for layout in layouts:
        axes = {name: axis for name, axis in layout.items() if re.fullmatch(r"[xy]axis\d*", name)}
        own = {name: axis["automargin"] for name, axis in axes.items()}
        assert set(own.values()) <= {False, "height"}, "no label moves the plot's edge"


def test_without_a_rate_there_is_no_percentage(database: Database) -> None:
    run = record_run(database, "unknown rate", link_samples=False)
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), FigureRequest()))
    assert content["layout"]["yaxis"]["ticksuffix"] == "bit/s"
    assert "%" not in notes(content)
    assert "rate not known" in notes(content)
    assert "shapes" not in content["layout"]


def test_zoomed_out_it_reads_coarser_bins_of_the_same_bytes(database: Database, run: Run) -> None:
    request = FigureRequest(width=200, from_ns=0, to_ns=6_400_000_000)
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), request))
    meta = content["layout"]["meta"]
    assert meta["bin_ns"] == 80_000_000
    drawn = sum(
        float(column(t["y"]).sum()) * meta["bin_ns"] / 8e9
        for t in traces(content, "scatter")
        if t.get("stackgroup") == "s1" and t["name"] != "other"
    )
    sent = sum(e["bytes"] for e in run.events if e["party"] == 0 and e["kind"] == Kind.SEND)
    assert drawn == pytest.approx(sent, rel=1e-5)


def test_the_level_is_the_finest_that_the_width_can_show() -> None:
    assert level_for(5_000_000_000, 1280) == 0
    assert level_for(50_000_000_000, 1280) == 1
    assert level_for(3000 * 10**9, 1280) == 3


def own_time(run: Run) -> np.ndarray:
    """What both workers had of each step, each from its own start to its own next one, in ns."""
    steps = 1 + max(step for _, step in run.starts)
    found = np.zeros(steps)
    for party in (0, 1):
        ended = max(e["end"] for e in run.events if e["party"] == party and e["kind"] == Kind.BACKWARD)
        found += np.diff([*(run.starts[party, step] for step in range(steps)), ended])
    return found


def test_the_heat_map_holds_every_wait_and_every_byte(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(heatmap(Source(session, run.job_id), FigureRequest()))
    waits, moved = traces(content, "heatmap")
    shares = column(waits["z"])
    drawn = (shares * own_time(run)).sum()
    assert drawn == pytest.approx(
        sum(e["end"] - e["start"] for e in run.events if e["kind"] == Kind.WAIT), rel=1e-5
    )
    layer = {e["layer"] for e in run.events if e["kind"] == Kind.WAIT}
    assert set(np.flatnonzero(shares.sum(axis=1)).tolist()) == layer
    sent = column(moved["z"]).sum() * content["layout"]["meta"]["bin_ns"] / 8e9
    assert sent == pytest.approx(sum(e["bytes"] for e in run.events if e["kind"] == Kind.SEND), rel=1e-5)


class Collectives(Source):
    """Its workers wait for what belongs to no layer, as those of ddp do."""

    def waits(self, first: int, last: int, size: int = 1) -> np.ndarray:
        found = super().waits(first, last, size)
        found["layer"] = -1
        return found


def test_waits_of_no_layer_have_a_row_of_their_own(database: Database) -> None:
    run = record_run(database, "collectives", steps=12, started=900_000)
    with database.read() as session:
        by_layer = answer(heatmap(Source(session, run.job_id), FigureRequest()))
        content = answer(heatmap(Collectives(session, run.job_id), FigureRequest()))
    named, _ = traces(by_layer, "heatmap")
    waits, moved = traces(content, "heatmap")
    assert list(waits["y"]) == [*moved["y"], "no layer"]
    assert waits["meta"]["keys"] == [*moved["meta"]["keys"], "no layer"]
    shares = column(waits["z"])
    assert not shares[:-1].any()
    layers = column(named["z"])
    assert shares[-1] == pytest.approx(layers.sum(axis=0)), "they add up to the same"
    layout = content["layout"]
    assert (layout["yaxis3"]["range"], layout["yaxis4"]["range"]) == (
        [len(shares) - 0.5, -0.5],
        [len(shares) - 1.5, -0.5],
    )
    assert layout["yaxis"]["ticktext"][-1] == "no layer"
    assert "what belongs to no layer is waited for most" in layout["meta"]["alt"]
