"""A network of a thousand layers: every list and figure answers, and none is larger than a page should load. (How long
they take with millions of events: `backend/services/benchmark.py`, whose data these are.)"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from backend.api.router import DOCUMENT, PREFIX
from backend.db import Database
from backend.db.engine import sqlite_url
from backend.db.models import LinkBin
from backend.figures import heatmap, utilization
from backend.figures.bins import neighbours
from backend.figures.draw import MAX_OUTLINES
from backend.services import benchmark
from backend.services.benchmark_fill import (
    OTHER_STEPS,
    PER_LAYER,
    WORKERS,
    Large,
    add_large,
    add_others,
    live,
)
from engine.telemetry.spread import LAYER_ROWS, layers_per_row
from tests.backend.figures_drawn import column, traces
from tests.backend.live_server import DIRECT

LAYERS = 1_000
STEPS = 4
MOST_BYTES = 250_000
"""Of a figure, compressed."""


@dataclass(frozen=True)
class Filled:
    large: Large
    rival: Large
    others: list[str]


@pytest.fixture(scope="module")
def filled(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    others = add_others(database, 12)
    home, events = tmp_path_factory.mktemp("jobs"), LAYERS * PER_LAYER * WORKERS
    large = add_large(database, LAYERS, STEPS * events, home=home, baseline=others[-1])
    return Filled(large, add_large(database, LAYERS, events), others)


def test_every_list_and_figure_answers(api: TestClient, filled: Filled) -> None:
    asked = benchmark.requests(filled.large, filled.rival, filled.others)
    assert len({each.name for each in asked}) == len(asked)
    for each in asked:
        answer = api.get(f"/api/v1{each.path}", params=dict(each.query))
        assert answer.status_code == 200, (each.name, answer.text[:500])
        if "/figures/" in each.path:
            assert len(gzip.compress(answer.content, 4)) < MOST_BYTES, each.name
    job = api.get(f"/api/v1/jobs/{filled.large.job_id}").json()
    assert (job["step"], job["samples_per_s"]) == (STEPS, None)  # none after the warm-up yet
    row = api.get("/api/v1/jobs", params={"text": filled.others[-1]}).json()["items"][0]
    assert (row["step"], row["samples_per_s"]) == (OTHER_STEPS, 640)


def test_the_benchmark_asks_for_everything_that_is_read(api: TestClient, filled: Filled) -> None:
    """But for what is of one race of strategies, which the data have none of, of people, and what is no list."""
    read = {path for path, of in api.get(DOCUMENT).json()["paths"].items() if "get" in of}
    left = {"/notices", "/session", "/metrics", "/jobs/{job_id}/logs/file"}
    left |= {"/jobs/{job_id}/export", "/jobs/{job_id}/tables"}  # files
    left |= {"/users", "/tokens", "/audit"}  # of people, of whom there are none
    left |= {"/secrets", "/webhooks", "/webhooks/{webhook_id}/deliveries"}  # theirs
    left |= {"/projects", "/maintenance", "/nodes"}  # what people write, or set up, by hand is short
    left |= {path for path in (each.removeprefix(PREFIX) for each in read) if path.startswith("/races/")}
    asked = {each.path for each in benchmark.requests(filled.large, filled.rival, filled.others)}
    patterns = {path: re.sub(r"\{\w+\}", "[^/]+", path) for path in read}
    missing = {
        path.removeprefix(PREFIX)
        for path, pattern in patterns.items()
        if not any(re.fullmatch(pattern, PREFIX + one) for one in asked)
    }
    assert missing == left


def test_deep_networks_are_drawn_in_few_rows_and_areas(api: TestClient, filled: Filled) -> None:
    path = f"/api/v1/jobs/{filled.large.job_id}/figures"
    heat = api.get(f"{path}/heatmap").json()
    waits, sent = traces(heat, "heatmap")
    assert len(waits["y"]) == len(sent["y"]) < LAYERS
    assert " to " in sent["y"][0]
    labels = heat["layout"]["yaxis"]["ticktext"]
    together = sent["y"][0].partition(" to ")[2]
    assert labels[0] == f"blocks.0.layer0 +{int(together.removeprefix('blocks.').replace('.layer', ''))}"
    narrow = api.get(f"{path}/heatmap", params={"width": 300}).json()["layout"]["yaxis"]["ticktext"]
    assert narrow[0].startswith("….0.layer0 +")
    boxes = sum(len(column(trace["x"])) // 5 for trace in traces(heat, "scatter"))
    assert 0 < boxes <= 2 * (MAX_OUTLINES + len(sent["y"]))
    found = api.get(f"{path}/utilization").json()
    areas, window = found["data"], found["layout"]["meta"]
    stacked = [trace for trace in areas if "stackgroup" in trace]
    assert WORKERS * 2 * 4 <= len(stacked) <= utilization.MAX_AREAS
    assert any(" to " in trace["name"] for trace in stacked)
    assert sum(len(column(trace["y"])) for trace in stacked) <= 1.1 * utilization.MAX_VALUES
    assert max(len(waits["y"]) * len(column(waits["x"])), len(sent["y"]) * len(column(sent["x"]))) <= (
        1.1 * heatmap.MAX_DRAWN
    )
    assert window["covered_ns"] == pytest.approx(
        [window["from_ns"], window["to_ns"]], abs=2 * window["bin_ns"]
    )


def test_merging_layers_loses_nothing() -> None:
    values = np.random.default_rng(0).integers(0, 9, (1_000, 500))
    rows = heatmap.rows_of_layers(*values.shape)
    assert [row.start for row in rows[1:]] == [row.stop for row in rows[:-1]]
    assert (rows[0].start, rows[-1].stop) == (0, 1_000)
    found = heatmap.merged(values, rows)
    assert found.size <= heatmap.MAX_DRAWN
    assert (found.sum(axis=0) == values.sum(axis=0)).all()
    assert (found[3] == values[rows[3].start : rows[3].stop].sum(axis=0)).all()
    assert [len(row) for row in heatmap.rows_of_layers(20, 1_920)] == [1] * 20


def test_batches_that_come_live_continue_the_run(api: TestClient, filled: Filled) -> None:
    headers = {"Authorization": f"Bearer {filled.large.token}", "Content-Type": "application/octet-stream"}
    batches = live(filled.large, parts=2)
    for _ in range(2 * WORKERS):
        events, body = next(batches)
        assert events == LAYERS * PER_LAYER // 2
        url = f"/api/v1/attempts/{filled.large.attempt}/batches"
        assert api.post(url, content=body, headers=headers).status_code == 200
    job = api.get(f"/api/v1/jobs/{filled.large.job_id}").json()
    assert job["step"] == STEPS + 1
    assert job["loss"] == pytest.approx(2.3 * 0.999**STEPS)


def test_deep_networks_share_rows_of_wide_bins(api: TestClient, filled: Filled) -> None:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    with database.read() as session:
        of = select(LinkBin.layer, func.sum(LinkBin.bytes)).where(
            LinkBin.attempt_id == filled.large.attempt, LinkBin.layer >= 0
        )
        fine, coarse = (
            dict(session.execute(of.where(LinkBin.level == level).group_by(LinkBin.layer)).all())
            for level in (0, 1)
        )
    size = layers_per_row(LAYERS)
    assert len(fine) == LAYERS
    assert len(coarse) == -(-LAYERS // size) <= LAYER_ROWS
    for row, moved in coarse.items():
        assert moved == sum(fine[layer] for layer in range(row, min(row + size, LAYERS)))
    for groups in (neighbours(LAYERS, 25, size), neighbours(LAYERS, 7, size)):
        assert all(group.start % size == 0 for group in groups)
        assert [layer for group in groups for layer in group] == list(range(LAYERS))
    whole = {"from_ns": 0, "to_ns": 10**12}
    drawn = api.get(f"/api/v1/jobs/{filled.large.job_id}/figures/utilization", params=whole).json()
    areas = [trace["meta"]["layers"] for trace in drawn["data"] if trace.get("stackgroup")]
    assert all(first % size == 0 for first, _ in areas if first >= 0)


@pytest.mark.usefixtures("server_lane")
def test_the_benchmark_asks_a_real_server_while_telemetry_comes_in(tmp_path: Path) -> None:
    database = Database(sqlite_url(tmp_path / "trainyard.db"))
    others = add_others(database, 2)
    events = 20 * PER_LAYER * WORKERS * 12
    large = add_large(database, 20, events, home=tmp_path / "jobs", baseline=others[-1])
    database.close()
    chosen = {"jobs", "jobs by baseline", "events", "logs, the end", "trace of one step", "speed-up"}
    asked = [each for each in benchmark.requests(large, large, others) if each.name in chosen]
    with benchmark.served(tmp_path) as url, benchmark.Traffic(url, large) as traffic:
        benchmark.ask(url, asked, rounds=1, pause_s=0.0)
        found = {
            each.name: httpx.get(f"{url}/api/v1{each.path}", params=each.query, **DIRECT).json()
            for each in asked
        }
    assert traffic.failed == ""
    assert traffic.events >= 20 * PER_LAYER // benchmark.PARTS
    for each in asked:
        assert each.row()[:2] == [each.name, 1]
        assert each.size > 0
    assert len(found["jobs by baseline"]["items"]) == 1
    assert len(found["logs, the end"]["text"]) > 50_000
    assert (
        sum(event["ph"] == "X" for event in found["trace of one step"]["traceEvents"])
        == 20 * PER_LAYER * WORKERS
    )
    kinds = [trace["type"] for trace in found["speed-up"]["data"]]
    assert kinds.count("bar") == 2, "it is compared, not refused"
