"""How busy the busiest port was while workers waited, read of a recorded run."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Link, StepRow
from backend.figures.limits import STEPS, Ports, figures, ports_while_waiting, waited
from backend.figures.source import Source
from backend.figures.speed import measure
from engine.telemetry.definitions import WARM_UP_STEPS
from engine.telemetry.events import ALL_LAYERS, BIN_NS, Kind, Track
from engine.telemetry.limits import limit
from tests.backend.recorded_run import Run, add_job, record_run


@pytest.fixture(scope="module")
def run(database: Database) -> Run:
    return record_run(database, "parameter-server", steps=24)


def test_waiting_is_counted_where_it_falls() -> None:
    edges = np.arange(0, 50, 10)
    start, end = np.array([5, 12, 39]), np.array([15, 18, 45])
    assert waited(start, end, edges).tolist() == [5, 5 + 6, 0, 1]
    assert waited(start[:0], end[:0], edges).tolist() == [0, 0, 0, 0]


def by_hand(source: Source, run: Run) -> Ports:
    """Bin by bin, and wait by wait."""
    steps = source.detailed_steps()
    steps = steps[steps >= WARM_UP_STEPS][-STEPS:].tolist()
    waits = [
        event
        for event in run.events
        if event["kind"] == Kind.WAIT and event["track"] == Track.COMPUTE and event["step"] in steps
    ]
    used = weight = 0.0
    alone: dict[tuple[int, int], float] = defaultdict(float)
    for number in range(min(e["start"] for e in waits) // BIN_NS, max(e["end"] for e in waits) // BIN_NS + 1):
        low, high = number * BIN_NS, (number + 1) * BIN_NS
        here = sum(max(0, min(e["end"], high) - max(e["start"], low)) for e in waits)
        busiest = 0.0
        for place, link in enumerate(source.links()):
            rows = source.bins(link, 0, number, number)
            for direction in (0, 1):
                own = rows[rows["direction"] == direction]
                counted = own["bytes"][own["layer"] == ALL_LAYERS].sum()
                layers = own["bytes"][own["layer"] != ALL_LAYERS].sum()
                assert link.rate_bps is not None
                own_use = min(max(counted, layers) * 8e9 / BIN_NS / link.rate_bps, 1.0)
                alone[place, direction] += here * own_use
                busiest = max(busiest, own_use)
        used, weight = used + here * busiest, weight + here
    return Ports(used / weight, max(alone.values()) / weight)


def test_the_busiest_port_is_weighed_by_the_time_that_workers_waited(database: Database, run: Run) -> None:
    with database.read() as session:
        source = Source(session, run.job_id)
        found = ports_while_waiting(source)
        expected = by_hand(source, run)
        whole = figures(source, measure(source), None)
    assert found is not None
    assert (found.any, found.one) == pytest.approx((expected.any, expected.one))
    assert 0 < expected.one < expected.any <= 1, (
        "a gradient and its answer go through two ports, one after the other"
    )
    assert (whole.port, whole.one_port, whole.processors, whole.rehearsed) == (
        found.any,
        found.one,
        None,
        False,
    )
    assert whole.exposed is not None
    assert 0 < whole.exposed < 1
    said = limit(whole)
    assert said is not None
    assert f"{100 * expected.any:.0f} % busy" in said.sentence


def test_of_a_job_without_links_or_waits_nobody_knows(database: Database, run: Run) -> None:
    job_id, _ = add_job(database, "waiting", started=5_000)
    with database.read() as session:
        assert ports_while_waiting(Source(session, job_id)) is None

    def forget_rates(session: Session) -> None:
        session.execute(update(Link).where(Link.attempt_id == run.attempt).values(rate_bps=None))

    database.writer.run(forget_rates)
    with database.read() as session:
        assert ports_while_waiting(Source(session, run.job_id)) is None


def test_of_a_job_that_is_deleted_just_now_nobody_knows(database: Database) -> None:
    """Its steps are gone already, its events are not."""
    run = record_run(database, "p3", steps=24, started=9_000)
    database.writer.run(
        lambda session: session.execute(delete(StepRow).where(StepRow.attempt_id == run.attempt))
    )
    with database.read() as session:
        source = Source(session, run.job_id)
        assert len(source.detailed_steps())
        assert ports_while_waiting(source) is None
