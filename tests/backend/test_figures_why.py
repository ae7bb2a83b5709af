"""Why a worker waited: the stretches add up to the wait, and name what happened."""

from __future__ import annotations

import numpy as np
import pytest

from backend.db import Database
from backend.figures.race import race
from backend.figures.request import FigureRequest
from backend.figures.source import SPAN, Source
from backend.figures.timeline import timeline
from backend.figures.waits import AHEAD, LIT, look_up
from backend.figures.why import Wait, Why, explain
from backend.figures.why_words import sentence
from engine.telemetry.events import Kind, Track
from tests.backend.figures_drawn import answer, column, traces
from tests.backend.recorded_run import MS, Run, record_run

FC, CONV = 7, 0


def spans(*rows: dict[str, int]) -> np.ndarray:
    """SPAN rows, by start; times are given in ms."""
    table = np.full(len(rows), -1, SPAN)
    for index, row in enumerate(rows):
        for name, value in {"bytes": 0, "step": 4, **row}.items():
            table[index][name] = value * MS if name in {"queued", "start", "end"} and value >= 0 else value
    return table[np.argsort(table["start"], kind="stable")]


def message(
    sender: int, receiver: int, layer: int, *, queued: int, start: int, end: int
) -> list[dict[str, int]]:
    common = {"layer": layer, "unit": layer, "queued": queued, "start": start, "end": end, "bytes": 100}
    return [
        {"party": sender, "peer": receiver, "kind": Kind.SEND, "track": Track.SEND, **common},
        {"party": receiver, "peer": sender, "kind": Kind.RECEIVE, "track": Track.RECEIVE, **common},
    ]


def wait(party: int, layer: int, start: int, end: int, **more: int) -> dict[str, int]:
    row = {
        "party": party,
        "kind": Kind.WAIT,
        "track": Track.COMPUTE,
        "layer": layer,
        "unit": layer,
        "step": 5,
    }
    return {**row, "start": start, "end": end, **more}


def told(why: Why) -> list[tuple[str, float, int]]:
    """(cause, ms, party) of every stretch, after checking that they follow one another through the whole wait."""
    edge = int(why.wait["start"])
    for stretch in why.stretches:
        assert stretch.from_ns == edge
        assert stretch.to_ns > edge
        edge = stretch.to_ns
    assert edge == why.wait["end"]
    return [(stretch.cause, stretch.ns / MS, stretch.party) for stretch in why.stretches]


def explained(table: np.ndarray) -> Why:
    return explain(table, table[table["kind"] == Kind.WAIT][0])


def test_a_queue_behind_another_layer_then_the_wire() -> None:
    # The answer was ready at 100, stood behind fc's until 130, arrived at 141; worker 0 waits from 100 to 141.
    table = spans(
        wait(0, CONV, 100, 141),
        *message(2, 0, FC, queued=90, start=92, end=130),
        *message(2, 0, CONV, queued=100, start=130, end=141),
    )
    why = explained(table)
    assert told(why) == [("queue", 30, 2), ("wire", 11, 2)]
    assert why.stretches[0].ahead == ((FC, 30 * MS),)
    assert [(row["kind"], row["layer"]) for row in why.path] == [(Kind.RECEIVE, CONV), (Kind.SEND, CONV)]
    assert [row["layer"] for row in why.ahead] == [FC]


def test_a_message_that_stood_aside_was_on_the_wire_twice() -> None:
    # fc's message left from 105 to 115, stood aside for conv's until 125, and went on until 145.
    table = spans(
        wait(0, FC, 100, 145),
        *message(2, 0, FC, queued=104, start=105, end=115),
        *message(2, 0, CONV, queued=114, start=115, end=125),
        *message(2, 0, FC, queued=104, start=125, end=145),
    )
    why = explained(table)
    assert told(why) == [
        ("unknown", 4, 2),
        ("held", 1, 2),
        ("wire", 10, 2),
        ("queue", 10, 2),
        ("wire", 20, 2),
    ]
    assert why.stretches[3].ahead == ((CONV, 10 * MS),)


def test_back_through_the_server_to_the_worker_that_computed_last() -> None:
    table = spans(
        wait(0, CONV, 100, 200),
        {"party": 1, "kind": Kind.BACKWARD, "track": Track.COMPUTE, "layer": CONV, "start": 90, "end": 140},
        {"party": 0, "kind": Kind.BACKWARD, "track": Track.COMPUTE, "layer": CONV, "start": 60, "end": 80},
        *message(0, 2, CONV, queued=80, start=80, end=95),
        *message(1, 2, CONV, queued=140, start=145, end=165),
        {
            "party": 2,
            "kind": Kind.REDUCE,
            "track": Track.SERVER,
            "layer": CONV,
            "unit": CONV,
            "peer": 1,
            "start": 166,
            "end": 168,
        },
        {
            "party": 2,
            "kind": Kind.UPDATE,
            "track": Track.SERVER,
            "layer": CONV,
            "unit": CONV,
            "start": 168,
            "end": 170,
        },
        *message(2, 0, CONV, queued=170, start=170, end=190),
    )
    assert told(explained(table)) == [
        ("compute", 40, 1), ("held", 5, 1), ("wire", 20, 1), ("held", 1, 2), ("reduce", 2, 2), ("reduce", 2, 2),
        ("wire", 20, 2), ("apply", 10, 0),
    ]  # fmt: skip


def test_around_a_ring_and_in_a_native_collective() -> None:
    ring = spans(
        wait(0, CONV, 100, 160),
        {"party": 2, "kind": Kind.BACKWARD, "track": Track.COMPUTE, "layer": CONV, "start": 60, "end": 110},
        *message(2, 1, CONV, queued=110, start=110, end=130),
        *message(1, 0, CONV, queued=132, start=132, end=160),
    )
    assert told(explained(ring)) == [("compute", 10, 2), ("wire", 20, 2), ("held", 2, 1), ("wire", 28, 1)]
    native = spans(
        wait(0, CONV, 100, 160),
        {"party": 0, "kind": Kind.BACKWARD, "track": Track.COMPUTE, "layer": CONV, "start": 60, "end": 90},
        {
            "party": 0,
            "kind": Kind.REDUCE,
            "track": Track.SERVER,
            "layer": CONV,
            "unit": CONV,
            "start": 90,
            "end": 158,
            "bytes": 9,
        },
    )
    assert told(explained(native)) == [("collective", 58, 0), ("apply", 2, 0)]


def test_what_was_not_recorded_is_called_unknown() -> None:
    assert told(explained(spans(wait(0, CONV, 100, 160)))) == [("unknown", 60, 0)]
    lost = spans(wait(0, CONV, 100, 160), message(1, 0, CONV, queued=150, start=150, end=160)[1])
    assert told(explained(lost)) == [("unknown", 50, 1), ("wire", 10, 1)]


@pytest.fixture(scope="module")
def fifo(database: Database) -> Run:
    return record_run(database, "parameter-server")


def first_wait(run: Run, step: int) -> dict[str, int]:
    return next(e for e in run.events if e["kind"] == Kind.WAIT and e["step"] == step)


def test_of_a_recorded_run(database: Database, fifo: Run) -> None:
    event = first_wait(fifo, 5)
    chosen = Wait(party=event["party"], step=5, layer=event["layer"])
    assert Wait.parse(chosen.text) == chosen
    with database.read() as session:
        source = Source(session, fifo.job_id)
        why = look_up(source, chosen)
        assert why is not None
        text = sentence(why, source.job)
        assert look_up(source, Wait(party=0, step=5, layer=3)) is None
    assert sum(ms for _, ms, _ in told(why)) == pytest.approx((event["end"] - event["start"]) / MS)
    assert {"queue", "wire"} <= {cause for cause, _, _ in told(why)}
    assert "queued behind classifier.fc5" in text
    assert "on the wire" in text


def test_of_a_step_that_was_recorded_alone(
    database: Database, fifo: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its waits are for messages of the step before it, of which there are totals only."""
    event = first_wait(fifo, 5)
    read = Source.spans

    def alone(source: Source, low: int, high: int) -> np.ndarray:
        found = read(source, low, high)
        return found[found["step"] == 5]

    monkeypatch.setattr(Source, "spans", alone)
    monkeypatch.setattr(Source, "detailed_steps", lambda _: np.array([5]))
    with database.read() as session:
        source = Source(session, fifo.job_id)
        why = look_up(source, Wait(party=event["party"], step=5, layer=event["layer"]))
        assert why is not None
        assert told(why)[0][0] == "unknown"
        assert "for what step 4 sent. Of that step only totals were kept" in sentence(why, source.job)


@pytest.mark.parametrize("slices", [1, 120])
def test_a_chosen_wait_is_lit_up_at_every_level_of_detail(database: Database, slices: int) -> None:
    run = record_run(database, f"lit {slices}", slices=slices, steps=6, link_samples=False)
    event = first_wait(run, 3)
    chosen = Wait(party=event["party"], step=3, layer=event["layer"])
    with database.read() as session:
        source = Source(session, run.job_id)
        why = look_up(source, chosen)
        assert why is not None
        content = answer(timeline(source, FigureRequest(step=3, why=chosen.text)))
    lit = [trace for trace in traces(content, "bar") if trace["name"] == LIT]
    drawn = np.concatenate([column(trace["base"]) for trace in lit])
    wanted = np.append(why.path["start"], why.wait["start"]) - content["layout"]["meta"]["origin_ns"]
    assert sorted(drawn.tolist()) == pytest.approx(sorted((wanted / 1e9).tolist()), abs=1e-6)
    ahead = [trace for trace in traces(content, "bar") if trace["name"] == AHEAD]
    assert sum(len(column(trace["base"])) for trace in ahead) > 0
    assert content["layout"]["meta"]["waits"][0]["ns"] >= event["end"] - event["start"]


def test_in_a_race_one_jobs_wait_is_lit_up(database: Database, fifo: Run) -> None:
    other = record_run(database, "p3", priority=True, slices=4)
    event = first_wait(fifo, 5)
    text = Wait(party=event["party"], step=5, layer=event["layer"]).text
    with database.read() as session:
        request = FigureRequest(step=5, why=text, why_job=fifo.job_id)
        content = answer(race(session, [other.job_id, fifo.job_id], request).figure)
    lit = [trace for trace in traces(content, "bar") if trace["name"] == LIT]
    assert {int(job) for trace in lit for job in column(trace["customdata"])[:, 0]} == {1}
