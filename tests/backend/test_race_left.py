"""How long a race still takes: by its jobs from their starts, however long they were queued."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db.models import Job
from backend.races.field import Cell
from backend.races.left import Started, left_ns
from backend.services.racing import Racing
from tests.backend.posted_run import end_attempt, start_attempt
from tests.backend.raced_jobs import next_job, show, submit

S = 1_000_000_000
FIRST, SECOND, ELSEWHERE = Cell(0, 0), Cell(1, 0), Cell(0, 1)


def ran(cell: Cell, begin_s: int, end_s: int | None) -> Started:
    return Started(cell=cell, started_ns=begin_s * S, ended_ns=None if end_s is None else end_s * S)


def test_each_job_takes_as_long_as_those_of_its_cell_did() -> None:
    jobs = [ran(FIRST, 0, 10), ran(SECOND, 10, 40), ran(FIRST, 40, 52)]
    assert left_ns(jobs, {FIRST: 1, SECOND: 2}, 60 * S) == (11 + 2 * 30) * S
    assert left_ns(jobs, {}, 60 * S) == 0
    assert left_ns([ran(FIRST, 0, None)], {FIRST: 2}, 5 * S) is None, "nobody knows yet"


def test_a_cell_without_an_end_is_like_the_others_under_its_condition() -> None:
    jobs = [ran(ELSEWHERE, 0, 100), ran(FIRST, 100, 104)]
    assert left_ns(jobs, {SECOND: 3}, 104 * S) == 3 * 4 * S
    assert left_ns(jobs, {Cell(1, 2): 1}, 104 * S) == 52 * S, "nobody ran under that condition"


@pytest.mark.parametrize(("behind_s", "left_s"), [(4, 6), (25, 0)])
def test_a_job_that_runs_has_some_of_its_time_behind_it(behind_s: int, left_s: int) -> None:
    jobs = [ran(FIRST, 0, 10), ran(SECOND, 10, None)]
    assert left_ns(jobs, {FIRST: 1}, (10 + behind_s) * S) == (left_s + 10) * S


def test_waiting_in_the_queue_is_no_time_of_a_race(api: TestClient, racing: Racing, tmp_path: Path) -> None:
    race = submit(api, "parameter-server", "p3")
    job_id = next_job(api, racing, race)
    assert job_id is not None
    assert show(api, race)["left_s"] is None
    end_attempt(api, start_attempt(api, job_id, tmp_path / job_id))

    def write(session: Session) -> None:
        job, now = session.get_one(Job, job_id), time.time_ns()
        job.created_unix_ns, job.started_unix_ns, job.ended_unix_ns = now - 500 * S, now - 20 * S, now

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]
    waiting = next_job(api, racing, race)
    assert waiting is not None
    assert show(api, race)["left_s"] == pytest.approx(5 * 20), "six jobs, of which one has ended"
    assert api.post(f"/api/v1/races/{race['id']}/cancel", json={}).json()["state"] == "cancelled"
    assert show(api, race)["left_s"] is None
