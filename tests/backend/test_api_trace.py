"""The timeline as a trace: every event once, on threads whose slices never overlap."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from backend.services import trace
from backend.services.events import ROW
from backend.services.trace import _Event
from engine.telemetry.events import Kind, Track
from tests.backend.job_specs import submit
from tests.backend.recorded_run import LAYERS, Run, record_run

STEPS = 12


@pytest.fixture(scope="module")
def run(api: TestClient) -> Run:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    return record_run(database, "p3", priority=True, slices=4, steps=STEPS)


def export(api: TestClient, job_id: str, **query: int) -> dict[str, Any]:
    answer = api.get(f"/api/v1/jobs/{job_id}/trace", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_stretch_of_time_is_exported_with_the_whole_steps_that_it_touches(
    api: TestClient, run: Run
) -> None:
    inside = run.starts[0, 5] + (run.starts[0, 6] - run.starts[0, 5]) // 2
    found = export(api, run.job_id, from_ns=inside, to_ns=inside + 1)
    assert found == export(api, run.job_id, step_from=5, step_to=5)
    assert found["otherData"]["steps"] == "5 to 5"
    none = export(api, run.job_id, from_ns=2**59, to_ns=2**60)["traceEvents"]
    assert [entry for entry in none if entry["ph"] == "X"] == []
    half = api.get(f"/api/v1/jobs/{run.job_id}/trace", params={"to_ns": inside})
    assert half.status_code == 422
    assert half.json()["detail"] == "from_ns = None: needs to_ns, and to_ns needs it. Give both or neither"


@pytest.mark.parametrize("at_once", [trace.EVENTS_AT_ONCE, 17])
def test_every_event_is_in_the_trace_once(
    api: TestClient, run: Run, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "EVENTS_AT_ONCE", at_once)
    found = export(api, run.job_id, step_from=2, step_to=4)
    slices = [entry for entry in found["traceEvents"] if entry["ph"] == "X"]
    recorded = [event for event in run.events if 2 <= event["step"] <= 4]

    def key(kind: int, party: int, start: float, end: float, size: int | None) -> tuple[object, ...]:
        return Kind(kind).name.lower(), party, round(start), round(end), size or None

    assert Counter(
        key(
            Kind[e["cat"].upper()],
            e["pid"],
            e["ts"] * 1e3,
            (e["ts"] + e["dur"]) * 1e3,
            e["args"].get("bytes"),
        )
        for e in slices
    ) == Counter(key(e["kind"], e["party"], e["start"], e["end"], e.get("bytes")) for e in recorded)
    sends = [entry for entry in slices if entry["cat"] == "send"]
    assert {entry["args"]["layer"] for entry in sends} == set(LAYERS)
    assert {entry["args"]["peer"] for entry in sends if entry["pid"] == 0} == {"server 0"}
    assert all(entry["args"]["queued_ms"] >= 0 for entry in sends if "queued_ms" in entry["args"])
    assert max(entry["args"]["queued_ms"] for entry in sends) > 1  # something stood behind other bytes
    assert {entry["args"]["priority"] for entry in sends} == set(range(len(LAYERS)))


def test_arrows_lead_from_messages_to_where_they_arrive_and_to_the_waits_that_they_end(
    api: TestClient, run: Run
) -> None:
    entries = export(api, run.job_id, step_from=2, step_to=6)["traceEvents"]
    slices = [entry for entry in entries if entry["ph"] == "X"]

    def at(end: dict[str, Any]) -> dict[str, Any]:
        """The slice that an arrow's end is bound to."""
        (found,) = [
            one
            for one in slices
            if (one["pid"], one["tid"]) == (end["pid"], end["tid"])
            and one["ts"] - 1e-4 <= end["ts"] < one["ts"] + one["dur"] - 1e-4
        ]
        return found

    begins, ends = ({e["id"]: e for e in entries if e["ph"] == phase} for phase in "sf")
    arrows = [(begins[i], end) for i, end in ends.items() if i in begins]
    assert all(begin["ts"] <= end["ts"] for begin, end in arrows)
    messages = [(at(begin), at(end)) for begin, end in arrows if begin["name"] == "message"]
    sends = [one for one in slices if one["cat"] == "send"]
    assert len(messages) == len(sends)
    for send, receive in messages:
        assert (send["cat"], receive["cat"]) == ("send", "receive")
        assert send["args"]["peer"] != receive["args"]["peer"]
        assert [send["args"][key] for key in ("step", "layer", "slice", "bytes")] == [
            receive["args"][key] for key in ("step", "layer", "slice", "bytes")
        ]
    waits = [(at(begin), at(end)) for begin, end in arrows if begin["name"] == "ends the wait"]
    assert {wait["ts"] for _, wait in waits} >= {
        one["ts"] for one in slices if one["cat"] == "wait" and one["args"]["step"] > 2
    }
    for receive, wait in waits:
        assert (receive["cat"], wait["cat"]) == ("receive", "wait")
        assert receive["ts"] + receive["dur"] == pytest.approx(wait["ts"] + wait["dur"], abs=1e-2)
        assert receive["args"]["layer"] == wait["args"]["layer"]


def test_slices_of_one_thread_never_overlap(api: TestClient, run: Run) -> None:
    entries = export(api, run.job_id, step_from=0)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in entries if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in entries if e["name"] == "process_name"}
    assert processes == {0: "worker 0", 1: "worker 1", 2: "server 0"}
    threads: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        if entry["ph"] == "X":
            threads[entry["pid"], entry["tid"]].append(entry)
    assert set(threads) == set(names)
    assert names[2, Track.RECEIVE * trace.LANES + 1] == "receive 2"  # the server hears two workers at once
    for slices in threads.values():
        until = 0.0
        for entry in slices:
            assert entry["ts"] >= until - 1e-6
            until = entry["ts"] + entry["dur"]


def test_without_a_range_the_newest_steps_are_exported(api: TestClient, run: Run) -> None:
    found = export(api, run.job_id)
    steps = {entry["args"]["step"] for entry in found["traceEvents"] if entry["ph"] == "X"}
    assert steps == set(range(STEPS - 10, STEPS))
    assert found["otherData"] == {
        "job": run.job_id,
        "name": "p3",
        "steps": f"{STEPS - 10} to {STEPS - 1}",
        "rehearsed": None,
        "slowed": None,
    }


def test_the_trace_of_a_rehearsal_says_so(api: TestClient) -> None:
    database = api.app.state.context.database  # type: ignore[attr-defined]
    rehearsed = record_run(database, "rehearsed", steps=2, started=20_000, fidelity="rehearse")
    label = export(api, rehearsed.job_id)["otherData"]["rehearsed"]
    assert label == "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15"


def test_a_job_that_waits_has_an_empty_trace(api: TestClient) -> None:
    found = export(api, submit(api, "waits")["id"])
    assert found["traceEvents"] == []
    assert api.get("/api/v1/jobs/nobody/trace").status_code == 404


def test_a_trace_is_written_as_its_pages_are_read() -> None:
    read: list[int] = []

    def pages() -> Iterator[np.ndarray]:
        for number in range(3):
            read.append(number)
            page = np.zeros(2, ROW)
            page["start"], page["end"] = number * 10 + 1, number * 10 + 5
            yield page

    pieces = trace.Trace(["conv1"], ["conv1"], ["worker 0"], {}).pieces(pages())
    before = [next(pieces), next(pieces)]
    assert read == []  # a trace of millions of events is never whole in memory
    before.append(next(pieces))
    assert read == [0]
    assert len(json.loads("".join([*before, *pieces]))["traceEvents"]) == 2 + 2 * 2 + 6
    assert _Event._fields[:2] + _Event._fields[3:] == tuple(n for n in ROW.names or () if n != "index")
