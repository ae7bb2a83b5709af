"""What a job's workers held in memory, over HTTP and in the terminal."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from backend.cli import memory as terminal
from backend.schemas.memory import JobMemory, LayerHeld
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.events import Kind, Track
from engine.telemetry.memory import COUNTERS, RESIDENT, RESIDENT_PEAK, series
from engine.telemetry.recorder import Recorder
from tests.backend.job_specs import submit
from tests.backend.posted_run import MS, Posted, record_steps, start_attempt

MIB = 2**20


@pytest.fixture(scope="module")
def run(api: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Posted:
    """Worker 1 swaps layer 0 and computes layer 1 again, of which only step 2 tells."""
    job = submit(api, "swapping")
    posted = start_attempt(api, job["id"], tmp_path_factory.mktemp("attempt"))
    record_steps(posted)
    recorder = Recorder(
        1, "worker 1", lambda: 0, None, attempt=posted.attempt, flush_s=3600, detail=DetailPolicy(mode="all")
    )
    recorder._sequence = len(posted.batches)
    for at, size in enumerate((100 * MIB, 180 * MIB, 150 * MIB)):
        recorder.metric(series(RESIDENT, "worker 1"), at, size)
        recorder.metric(series(RESIDENT_PEAK, "worker 1"), at, size + MIB)
    told = (
        (1, Kind.SAVED, Track.MEMORY, 0, 0, 9),
        (2, Kind.SAVED, Track.MEMORY, 0, 0, 3 * MIB),
        (2, Kind.SAVED, Track.MEMORY, 0, 0, 5 * MIB),  # of the second micro-batch
        (2, Kind.SWAP_OUT, Track.MEMORY, 0, 2, 7 * MIB),
        (2, Kind.SWAP_IN, Track.MEMORY, 0, 4, 7 * MIB),
        (2, Kind.SWAP_IN, Track.COMPUTE, 0, 3, 7 * MIB),
        (2, Kind.RECOMPUTE, Track.COMPUTE, 1, 5, 2 * MIB),
    )
    for step, kind, track, layer, ms, size in told:
        recorder.event(kind, track, step=step, layer=layer, start=0, end=ms * MS, bytes=size)
    recorder.close()
    posted.batches += recorder.memory
    posted.post_all(api)
    return posted


def test_each_figure_is_said_with_who_counts_it(api: TestClient, run: Posted) -> None:
    answer = api.get(f"/api/v1/jobs/{run.job_id}/memory")
    assert answer.status_code == 200, answer.text
    found = JobMemory.model_validate(answer.json())
    resident, peak = found.measured
    assert (resident.worker, resident.measure, resident.counted) == (1, RESIDENT, COUNTERS[RESIDENT])
    assert (resident.first, resident.last, resident.most) == (100 * MIB, 150 * MIB, 180 * MIB)
    assert (peak.measure, peak.most) == (RESIDENT_PEAK, 181 * MIB)
    first, second = found.layers
    assert first == LayerHeld(
        worker=1,
        layer=0,
        name=first.name,
        step=2,
        saved=4 * MIB,
        left=7 * MIB,
        again=0,
        again_ms=0,
        waited_ms=3,
    )
    assert (second.layer, second.saved, second.again, second.again_ms) == (1, None, 2 * MIB, 5)
    names = api.get(f"/api/v1/jobs/{run.job_id}/metrics/names").json()["items"]
    assert {"resident_bytes of worker 1", "resident_peak_bytes of worker 1"} <= {one["name"] for one in names}


def test_the_terminal_says_the_same(api: TestClient, run: Posted) -> None:
    found = JobMemory.model_validate(api.get(f"/api/v1/jobs/{run.job_id}/memory").json())
    text = "\n".join(terminal.lines(found))
    assert f"{RESIDENT}: {COUNTERS[RESIDENT]}" in text
    swapped, again = text.splitlines()[-2:]
    assert re.search(r"4\.0 MiB +7\.0 MiB +- +- +3 ms$", swapped)
    assert re.search(r"- +- +2\.0 MiB +5 ms +-$", again)
    assert list(terminal.lines(found.model_copy(update={"layers": []})))[-1] == terminal.UNCOUNTED
    assert list(terminal.lines(found.model_copy(update={"measured": []}))) == [terminal.NONE]


def test_what_is_not_there_is_said(api: TestClient, run: Posted) -> None:
    assert api.get("/api/v1/jobs/none/memory").status_code == 404
    assert api.get(f"/api/v1/jobs/{run.job_id}/memory", params={"attempt": 9}).status_code == 422
