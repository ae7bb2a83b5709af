"""Utilization and heat map: every byte is drawn once, under the right layer, and nothing is a share of an
unknown rate."""

from __future__ import annotations

import numpy as np
import pytest

from backend.db import Database
from backend.figures.bins import level_for
from backend.figures.heatmap import heatmap
from backend.figures.request import FigureRequest
from backend.figures.source import Source
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
            assert drawn[layer.rsplit(".", 1)[-1]] == pytest.approx(recorded, rel=1e-5)
        total = sum(e["bytes"] for e in own)
        assert drawn["other"] == pytest.approx(0.04 * total, rel=0.1)  # what the interface counts beyond them


def test_a_known_rate_is_the_hundred_percent(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(utilization(Source(session, run.job_id), FigureRequest()))
    axis = content["layout"]["yaxis"]
    assert axis["ticktext"] == ["0", "50 %", "100 %"]
    assert column(axis["tickvals"]).tolist() == [0, 150e6, 300e6]
    assert "limit 300 Mbit/s, software-limited" in notes(content)
    assert {shape["y0"] for shape in content["layout"]["shapes"]} == {300_000_000}


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


def test_the_heat_map_holds_every_wait_and_every_byte(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(heatmap(Source(session, run.job_id), FigureRequest()))
    waits, moved = traces(content, "heatmap")
    edges = column(waits["x"])
    shares = column(waits["z"])
    drawn = (shares * np.diff(edges)).sum() * 2e9
    assert drawn == pytest.approx(
        sum(e["end"] - e["start"] for e in run.events if e["kind"] == Kind.WAIT), rel=1e-5
    )
    layer = {e["layer"] for e in run.events if e["kind"] == Kind.WAIT}
    assert set(np.flatnonzero(shares.sum(axis=1)).tolist()) == layer
    sent = column(moved["z"]).sum() * content["layout"]["meta"]["bin_ns"] / 8e9
    assert sent == pytest.approx(sum(e["bytes"] for e in run.events if e["kind"] == Kind.SEND), rel=1e-5)
