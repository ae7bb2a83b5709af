"""Layers that are called by a number alone, as in a Sequential, are read with what they are; requests and files have
the number."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Job
from backend.figures.facts import JobFacts, job_facts
from backend.figures.heatmap import heatmap
from backend.figures.race import cause_of
from backend.figures.race import race as side_by_side
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.timeline import timeline
from backend.figures.utilization import utilization
from engine.plan.description import layer_title
from engine.telemetry.events import NONE
from tests.backend.figures_drawn import answer, traces
from tests.backend.recorded_run import Run, record_run

KINDS = ("Conv2d", "Conv2d", "Conv2d", "Conv2d", "Linear", "Linear")
TITLES = tuple(f"{index} ({kind})" for index, kind in enumerate(KINDS))
DESCRIPTION = {
    "name": "mine",
    "layers": [{"name": str(index), "kind": kind, "index": index} for index, kind in enumerate(KINDS)],
}
STEPS = 24


def facts(*layers: tuple[str, str]) -> JobFacts:
    described = [{"name": name, "kind": kind, "index": index} for index, (name, kind) in enumerate(layers)]
    return job_facts(Job(id="1", name="one", spec={}, description={"layers": described}, revision=0), None)


def call_by_number(database: Database, *runs: Run) -> None:
    """As the layers of a Sequential are."""

    def write(session: Session) -> None:
        for run in runs:
            session.get_one(Job, run.job_id).description = DESCRIPTION

    database.writer.run(write)


@pytest.fixture(scope="module")
def database(api: TestClient) -> Database:
    found: Database = api.app.state.context.database  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module")
def runs(database: Database) -> list[Run]:
    """One with priorities, which is faster, and one without."""
    found = [
        record_run(database, "p3", priority=True, slices=8, steps=STEPS, started=1000),
        record_run(database, "parameter-server", steps=STEPS),
    ]
    call_by_number(database, *found)
    return found


def test_a_number_alone_is_read_with_what_it_is() -> None:
    assert layer_title("4", "Conv2d") == "4 (Conv2d)"
    assert layer_title("0.12", "Linear") == "0.12 (Linear)"
    assert layer_title("features.0", "Conv2d") == "features.0"
    assert layer_title("fc6", "Linear") == "fc6"
    assert layer_title("", "Linear") == "(root)"
    assert layer_title("4", "") == "4", "another version stored no kinds"


def test_figures_and_tables_call_a_layer_alike() -> None:
    """Also where its last part would do to tell it from the others: who reads `a` finds no `3.a`."""
    job = facts(("4", "Conv2d"), ("classifier.fc6", "Linear"), ("3.a", "Linear"), ("", "Linear"))
    titles = ["", "4 (Conv2d)", "classifier.fc6", "3.a", "(root)", "layer 4"]
    assert [job.title(index) for index in range(-1, 5)] == titles
    assert [job.event_named(index, NONE) for index in range(-1, 5)] == titles
    assert [job.message_named(index) for index in range(-1, 5)] == titles
    assert [job.fitting(index, 24) for index in range(-1, 5)] == titles
    assert [job.layer(index) for index in range(-1, 2)] == ["", "4", "classifier.fc6"]


def test_where_there_is_no_room_a_number_loses_its_kind_and_a_name_its_beginning() -> None:
    job = facts(("12", "ConvTranspose2d"), ("embedding", "Embedding"))
    assert [job.fitting(0, room) for room in (20, 10)] == ["12 (ConvTranspose2d)", "12"]
    assert [job.fitting(1, room) for room in (20, 6)] == ["embedding", "…dding"]


def test_figures_say_what_a_layer_is(database: Database, runs: list[Run]) -> None:
    with database.read() as session:
        source = Source(session, runs[1].job_id)
        bars = answer(timeline(source, FigureRequest(step=5)))
        areas = answer(utilization(source, FigureRequest(step=5)))
        maps = answer(heatmap(source, FigureRequest(step=5)))
    hovers = [text for trace in traces(bars, "bar") for text in trace.get("hovertext", ())]
    named = {found[1] for text in hovers if (found := re.match(r"<b>(.*?)</b> ", text))}
    assert named == set(TITLES)
    assert tuple(bars["layout"]["meta"]["layers"]) == TITLES
    stacked = [trace for trace in areas["data"] if trace.get("stackgroup") and trace["name"] != "other"]
    assert {(trace["name"], trace["meta"]["key"]) for trace in stacked} == set(
        zip(TITLES, map(str, range(6)), strict=True)
    )
    for trace in traces(maps, "heatmap"):
        assert tuple(trace["y"]) == TITLES
        assert trace["meta"]["keys"] == [str(index) for index in range(6)]
    for drawn in (bars, areas):
        (scale,) = [trace for trace in drawn["data"] if "colorbar" in trace.get("marker", {})]
        assert set(scale["marker"]["colorbar"]["ticktext"]) <= set(TITLES)


def test_a_row_of_a_layer_over_many_steps_says_what_it_is(database: Database) -> None:
    run = record_run(database, "long", steps=60, link_samples=False, detail="chosen")
    call_by_number(database, run)
    whole: dict[str, Any] = {"from_ns": run.starts[0, 0], "to_ns": run.starts[0, 59]}
    with database.read() as session:
        source = Source(session, run.job_id)
        wide, narrow = (
            answer(timeline(source, FigureRequest(**whole, layer=0, width=width))) for width in (1280, 390)
        )
    assert wide["layout"]["meta"]["level"] == narrow["layout"]["meta"]["level"] == "rollup"
    assert wide["layout"]["yaxis"]["ticktext"][-1] == "waits for <b>0 (Conv2d)</b>"
    assert narrow["layout"]["yaxis"]["ticktext"][-1] == "0 (Conv2d)"


def test_causes_say_what_a_layer_is(database: Database, runs: list[Run]) -> None:
    fast, slow = (run.job_id for run in runs)
    with database.read() as session:
        cause = cause_of(session, fast, slow)
        shown = side_by_side(session, [fast, slow], FigureRequest())
    assert cause == "4 (Linear) no longer blocks 0 (Conv2d)"
    assert f"sooner than parameter-server: {cause}" in shown.headline


def test_answers_have_the_name_and_what_people_read(api: TestClient, runs: list[Run]) -> None:
    def get(path: str, **query: Any) -> Any:
        found = api.get(f"/api/v1/jobs/{runs[1].job_id}/{path}", params=query)
        assert found.status_code == 200, found.text
        return found.json()

    events = get("events", limit=1)
    assert (tuple(events["layer_names"]), events["layers"]) == (TITLES, list("012345"))
    wait = {"worker": 0, "step": 5, "layer": 0}
    why = get("why", **wait)
    assert (why["layer"], why["layer_name"]) == ("0", "0 (Conv2d)")
    ahead = {(one["layer"], one["layer_name"]) for part in why["stretches"] for one in part["ahead"]}
    assert ("4", "4 (Linear)") in ahead
    assert "queued behind 4 (Linear)" in why["text"]
    stretch = get("links/stretch", from_ns=0, to_ns=10**9)
    assert {(row["layer"], row["layer_name"]) for row in stretch["layers"] if row["index"] >= 0} == set(
        zip(map(str, range(6)), TITLES, strict=True)
    )
    slices = [one for one in get("trace", step_from=5, step_to=5)["traceEvents"] if one["ph"] == "X"]
    forward = {(one["name"], one["args"]["layer"]) for one in slices if one["cat"] == "forward"}
    assert forward == {(f"forward {title}", str(index)) for index, title in enumerate(TITLES)}
