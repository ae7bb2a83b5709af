"""The timeline draws what was recorded, at every level of detail."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from backend.db import Database
from backend.figures.boxes import Boxes, place
from backend.figures.draw import MAX_OUTLINES, cell_time, cells
from backend.figures.request import THEMES, FigureRequest
from backend.figures.rolled import STEP_ROW
from backend.figures.rollup import DIM
from backend.figures.rows import Row, rows_of
from backend.figures.source import SPAN, Source
from backend.figures.theme import COLOURS
from backend.figures.timeline import draw, newest, timeline
from backend.figures.window import Window
from backend.figures.words import hover_texts
from engine.telemetry.events import Clock, Kind, Track
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.recorded_run import Run, add_job, record_run

SECOND = 1e9


@pytest.fixture(scope="module")
def run(database: Database) -> Run:
    return record_run(database, "p3", priority=True, slices=4)


def overlapping(run: Run, start: int, end: int) -> list[dict[str, int]]:
    return [e for e in run.events if e["end"] > start and e["start"] < end]


def test_bars_are_exactly_the_recorded_events(database: Database, run: Run) -> None:
    with database.read() as session:
        figure = timeline(Source(session, run.job_id), FigureRequest(step=5))
    content = answer(figure)
    meta = content["layout"]["meta"]
    assert meta["level"] == "bars"
    assert meta["origin_ns"] == min(run.starts[w, 5] for w in (0, 1))
    events = overlapping(run, *meta["covered_ns"])
    bars = traces(content, "bar")
    start = np.concatenate([column(t["base"]) for t in bars])
    length = np.concatenate([column(t["x"]) for t in bars])
    assert len(start) == len(events) == meta["spans"]
    expected = sorted((e["start"] - meta["origin_ns"]) / SECOND for e in events)
    assert sorted(start.tolist()) == pytest.approx(expected, abs=1e-6)
    for kind in Kind:
        drawn = sum(
            float(column(t["x"])[column(t["customdata"])[:, 5] == kind].sum())
            for t in bars
            if "customdata" in t
        )
        recorded = sum(e["end"] - e["start"] for e in events if e["kind"] == kind) / SECOND
        assert drawn == pytest.approx(recorded, rel=1e-5), kind
    assert (length >= 0).all()
    colours = [t["marker"]["color"] for t in bars]
    each = [one for named in colours for one in ([named] if isinstance(named, str) else named)]
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in each), "what plotly.js takes for a colour"
    hovers = [text for t in bars for text in t.get("hovertext", ())]
    assert len(hovers) == len(events)
    assert all(" ms by the host's clock" in text for text in hovers)


def test_a_span_says_whose_clock_it_has(database: Database, run: Run) -> None:
    spans = np.zeros(1, SPAN)
    spans["end"], spans["clock"] = 2_000_000, Clock.CUDA
    with database.read() as session:
        (text,) = hover_texts(spans, Source(session, run.job_id).job)
    assert "took 2.000 ms by the device's clock" in text


def test_red_is_exposed_waiting_and_nothing_else(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(timeline(Source(session, run.job_id), FigureRequest(step=5)))
    red = [t for t in traces(content, "bar") if t["name"] == "exposed wait"]
    assert len(red) == 1
    kinds = column(red[0]["customdata"])[:, 5]
    assert set(kinds.tolist()) == {int(Kind.WAIT)}
    meta = content["layout"]["meta"]
    waits = [
        e
        for e in overlapping(run, *meta["covered_ns"])
        if e["kind"] == Kind.WAIT and e["track"] == Track.COMPUTE
    ]
    assert len(kinds) == len(waits) > 0


def test_many_spans_become_outlines_and_bars_again_when_zoomed_in(database: Database) -> None:
    run = record_run(database, "many", priority=True, slices=120, steps=6, link_samples=False)
    with database.read() as session:
        source = Source(session, run.job_id)
        whole = answer(timeline(source, FigureRequest(step=3)))
        first, last = run.starts[0, 1], run.starts[0, 5]
        zoomed = answer(
            timeline(source, FigureRequest(step=3, from_ns=first, to_ns=first + (last - first) // 4000))
        )
    meta = whole["layout"]["meta"]
    assert meta["events"] > 20_000
    assert meta["level"] == "outlines"
    assert meta["spans"] <= MAX_OUTLINES
    filled = [t for t in traces(whole, "scatter") if t.get("fill") == "toself"]
    assert sum(len(column(t["x"])) for t in filled) == 5 * meta["spans"]
    assert zoomed["layout"]["meta"]["level"] == "bars"


def test_spans_that_cannot_be_merged_become_cells(database: Database, run: Run) -> None:
    count, period = 20_000, 1_000_000
    spans = np.zeros(count, SPAN)
    spans["start"] = np.arange(count) * period
    spans["end"] = spans["start"] + 3 * period // 4
    spans["layer"] = np.arange(count) % 6  # no neighbours are alike
    spans["kind"], spans["track"], spans["unit"], spans["peer"] = Kind.SEND, Track.SEND, -1, 2
    third = count * period // 3
    window = Window(origin_ns=0, from_ns=third, to_ns=2 * third, step=None)
    with database.read() as session:
        job = Source(session, run.job_id).job
        content = answer(draw(job, spans, np.empty(0, STEP_ROW), window, FigureRequest(width=1000)))
    assert content["layout"]["meta"]["level"] == "cells"
    filled = [t for t in traces(content, "scatter") if t.get("fill") == "toself"]
    drawn = np.concatenate([column(t["x"]).reshape(-1, 5)[:, :2] for t in filled])
    assert 500 < len(drawn) <= MAX_OUTLINES
    assert not traces(content, "heatmap"), "pictures stay in memory"
    drawn = drawn[drawn[:, 0].argsort()]
    # The row is full: cells lie side by side, from the first span to the last.
    assert drawn[:-1, 1] == pytest.approx(drawn[1:, 0], abs=1e-5)
    assert (drawn[0, 0], drawn[-1, 1]) == pytest.approx((0.0, 3 * third / SECOND), abs=1e-5)
    rows = rows_of(spans["party"], spans["track"], job.parties)
    boxes = place(spans, rows, 6, 0)
    time = cell_time(boxes, 1, (0.0, 3 * third / SECOND), 1500)
    assert time.sum() == pytest.approx((spans["end"] - spans["start"]).sum() / SECOND, rel=1e-9)


def test_cells_have_the_colour_that_takes_most_of_them_and_are_never_too_many() -> None:
    def cells_of(
        starts: list[float], ends: list[float], codes: list[int], of: list[int]
    ) -> list[tuple[float, ...]]:
        n, rows = len(starts), [Row(party=0, track=Track.SEND, label="", y=float(y)) for y in (0, 2)]
        x0, x1, row = np.array(starts), np.array(ends), np.array(of)
        boxes = Boxes(
            x0=x0, x1=x1, y0=row * 2.0, y1=row * 2.0 + 1, code=np.array(codes), row=row, source=np.arange(n)
        )
        found = cells(boxes, rows, (0.0, 10.0), 10)
        return list(zip(found.row, found.x0, found.x1, found.y0, found.code, strict=True))

    assert cells_of([0.0, 2.4, 9.0, 0.0], [2.4, 3.0, 9.01, 10.0], [3, 5, 7, 1], [0, 0, 0, 1]) == [
        (0, 0.0, 2.0, 0.0, 3),
        (0, 2.0, 3.0, 0.0, 5),  # more of it than of 3, and nothing after it but a hundredth of a cell
        (1, 0.0, 10.0, 2.0, 1),
    ]
    n = 4 * MAX_OUTLINES
    x0 = np.arange(n) * 10.0 / n
    boxes = Boxes(
        x0=x0, x1=x0 + 10.0 / n, y0=np.zeros(n), y1=np.ones(n), code=np.arange(n) % 2, row=np.zeros(n, int),
        source=np.arange(n),
    )  # fmt: skip
    found = cells(boxes, [Row(party=0, track=Track.SEND, label="", y=0.0)], (0.0, 10.0), n)
    assert 0 < len(found) <= MAX_OUTLINES
    assert (found.x0[0], found.x1[-1]) == (0.0, 10.0)


def test_outlines_cover_the_recorded_time(database: Database) -> None:
    run = record_run(database, "slices", priority=True, slices=40, steps=6, link_samples=False)
    with database.read() as session:
        content = answer(timeline(Source(session, run.job_id), FigureRequest(step=3)))
    meta = content["layout"]["meta"]
    assert meta["level"] == "outlines"
    drawn = 0.0
    for trace in traces(content, "scatter"):
        if trace.get("fill") == "toself" and trace["name"] == "exposed wait":
            box = column(trace["x"]).reshape(-1, 5)
            drawn += float((box[:, 1] - box[:, 0]).sum())
    waits = sum(
        e["end"] - e["start"] for e in overlapping(run, *meta["covered_ns"]) if e["kind"] == Kind.WAIT
    )
    assert drawn == pytest.approx(waits / SECOND, rel=1e-4)


def test_long_stretches_show_rollups(database: Database) -> None:
    run = record_run(database, "long", steps=60, link_samples=False, detail="chosen")
    first, last = run.starts[0, 0], run.starts[0, 59]
    with database.read() as session:
        content = answer(timeline(Source(session, run.job_id), FigureRequest(from_ns=first, to_ns=last)))
    assert content["layout"]["meta"]["level"] == "rollup"
    waited = column(traces(content, "heatmap")[1]["z"])
    own = [e for e in run.events if e["kind"] == Kind.WAIT and e["party"] == 0]
    share = sum(e["end"] - e["start"] for e in own) / (last - first)
    assert np.nanmean(waited[1]) == pytest.approx(share, abs=0.05)

    layer = max(own, key=lambda event: event["end"] - event["start"])["layer"]
    with database.read() as session:
        source = Source(session, run.job_id)
        lit = answer(timeline(source, FigureRequest(from_ns=first, to_ns=last, layer=layer)))
    assert lit["layout"]["height"] == content["layout"]["height"], "nothing below moves"
    *_, row = traces(lit, "heatmap")
    filled = [t for t in traces(lit, "scatter") if t.get("fill") == "toself"]
    assert {(t["name"] == "layer", t.get("opacity")) for t in filled} == {(True, None), (False, DIM)}
    assert row["name"] == "layer"
    shares, edges = column(row["z"])[0], column(row["x"])
    waits = [
        e for e in run.events if e["kind"] == Kind.WAIT and e["layer"] == layer and e["step"] < len(shares)
    ]
    waited_s = sum(e["end"] - e["start"] for e in waits) / SECOND
    assert (shares * np.diff(edges)).sum() * 2 == pytest.approx(waited_s, rel=1e-3)


@pytest.mark.parametrize(
    "request_", [FigureRequest(), FigureRequest(step=3), FigureRequest(from_ns=0, to_ns=9)]
)
def test_a_job_without_events_says_so(database: Database, request_: FigureRequest) -> None:
    for state, said in (
        ("running", "No events yet: the first step has not ended"),
        ("failed", "No events: it ended before the first step had ended"),
    ):
        job_id, _ = add_job(database, "empty", started=10**15, state=state)
        with database.read() as session:
            content = answer(timeline(Source(session, job_id), request_))
        assert content["layout"]["meta"]["empty"]
        assert said in notes(content)


def test_a_step_that_is_not_there_is_named(database: Database, run: Run) -> None:
    with database.read() as session:
        content = answer(timeline(Source(session, run.job_id), FigureRequest(step=99)))
    assert "Step 99 is not there: the steps are 0 to 11" in notes(content)


def test_it_begins_with_the_newest_step_whose_messages_are_there_too() -> None:
    """Not with a slow one that was kept alone, nor with the one that still runs, unless there is no other."""
    for detailed, last, expected in (
        ([0, 1, 2, 100, 101, 157], 200, 101),
        ([0, 1, 2, 100, 101], 101, 2),
        ([0, 57, 99], 200, 99),
        ([3, 4], 4, 3),
        ([4], 4, 4),
    ):
        assert newest(np.array(detailed), last) == expected, detailed


def test_what_memory_mechanisms_do_has_colours_and_a_row_of_its_own(database: Database, run: Run) -> None:
    window = Window(origin_ns=0, from_ns=0, to_ns=8_000_000, step=None)
    spans = np.zeros(5, SPAN)
    spans["start"] = np.arange(5) * 1_000_000
    spans["end"] = spans["start"] + 500_000
    spans["queued"] = -1
    spans["kind"] = [Kind.FORWARD, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.SWAP_IN, Kind.RECOMPUTE]
    spans["track"] = [Track.COMPUTE, Track.MEMORY, Track.MEMORY, Track.COMPUTE, Track.COMPUTE]

    def drawn(rows: np.ndarray, **view: Any) -> dict[str, Any]:
        with database.read() as session:
            job = Source(session, run.job_id).job
            return answer(draw(job, rows, np.empty(0, STEP_ROW), window, FigureRequest(**view)))

    for theme in THEMES:
        content = drawn(spans, theme=theme)
        own = COLOURS[theme]
        colours = [one for bar in traces(content, "bar") for one in bar["marker"]["color"]]
        assert colours[1:] == [own.swap_in, own.again, own.swap_out, own.swap_in], "row by row"
        assert len({*colours, own.wait, own.other}) == 6
        assert content["layout"]["yaxis"]["ticktext"] == ["<b>worker 0</b> compute", "swap"]
        key = {
            t["name"]: t["marker"]["color"] for t in traces(content, "scatter") if t.get("showlegend", True)
        }
        assert (key["swap out"], key["swap in"], key["recompute"]) == (own.swap_out, own.swap_in, own.again)
    with database.read() as session:
        hovers = hover_texts(spans, Source(session, run.job_id).job)
    assert "swap in, waited for" in hovers[3]
    assert "waited for" not in hovers[2]
    plain = drawn(spans[:1])
    assert not {"swap out", "swap in", "recompute"} & {t["name"] for t in traces(plain, "scatter")}
