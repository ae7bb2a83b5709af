"""A run step by step: what is kept from one look to the next is what a look at everything would find."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import StepRow
from backend.figures.progress import STEP, StepCache, grouped
from backend.services.benchmark_fill import add_others
from tests.databases import opened_by

WORKERS, STEPS = 3, 200
JOB, ATTEMPT = "a job", 1
Row = dict[str, float | None]


def filled(tmp_path: Path, *without: int) -> Database:
    """Three attempts with steps of their own, some of which have none."""
    database = Database(opened_by(tmp_path))
    add_others(database, 3)
    database.writer.run(
        lambda session: session.execute(delete(StepRow).where(StepRow.attempt_id.in_(without)))
    )
    return database


def recorded(seed: int) -> list[list[Row]]:
    """By worker, in order: some steps have no samples, and so no loss."""
    dice = random.Random(seed)
    found = []
    for party in range(WORKERS):
        at, rows = 1_000 * party, []
        for step in range(STEPS):
            start, samples = at, dice.choice((0, 16, 32))
            at += dice.randrange(50, 90)
            rows.append(
                {
                    "attempt_id": ATTEMPT, "party": party, "step": step, "start_ns": start, "end_ns": at,
                    "samples": samples, "loss": dice.random() if samples else None, "exposed_ns": 0,
                    "compute_ns": 0, "input_ns": 0,
                }
            )  # fmt: skip
            at += dice.randrange(10)
        found.append(rows)
    return found


def expected(rows: list[list[Row]]) -> np.ndarray:
    """STEP rows of what has come, one step after another."""
    found = np.empty(max(map(len, rows)), STEP)
    for step in range(len(found)):
        own = [worker[step] for worker in rows if step < len(worker)]
        following = [
            float(worker[step + 1]["start_ns"] or 0) - float(worker[step]["start_ns"] or 0)
            for worker in rows
            if step + 1 < len(worker)
        ]
        samples = sum(row["samples"] or 0 for row in own)
        loss = sum((row["loss"] or 0) * (row["samples"] or 0) for row in own)
        found[step] = (
            step,
            max(row["end_ns"] or 0 for row in own),
            len(own),
            samples,
            loss / samples if samples else np.nan,
            max(following, default=np.nan),
        )
    return found


def same(left: np.ndarray, right: np.ndarray) -> None:
    for name in STEP.names or ():
        np.testing.assert_allclose(left[name], right[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_reading_everything_finds(tmp_path: Path, seed: int) -> None:
    """Workers' batches come in their order, and one worker's long after the others'."""
    database = filled(tmp_path, ATTEMPT)
    all_rows, cache, dice = recorded(seed), StepCache(), random.Random(seed)
    come: list[list[Row]] = [[] for _ in range(WORKERS)]
    while any(len(come[party]) < STEPS for party in range(WORKERS)):
        party = dice.choices(range(WORKERS), weights=(8, 4, 1))[0]
        batch = all_rows[party][len(come[party]) : len(come[party]) + dice.randrange(1, 30)]
        come[party] += batch

        def write(session: Session, rows: list[Row] = batch) -> None:
            if rows:
                session.execute(insert(StepRow), rows)

        database.writer.run(write)
        with database.read() as session:
            same(cache.steps(session, JOB, ATTEMPT, WORKERS), expected(come))
    kept = cache._kept[JOB, ATTEMPT]
    assert len(kept) == STEPS - 1, "of what has ended hardly anything is read again"
    with database.read() as session:
        assert len(cache.steps(session, "another job", ATTEMPT, WORKERS)) == STEPS
        assert len(cache.steps(session, JOB, ATTEMPT + 1, WORKERS)) not in {0, STEPS}
    database.close()


def test_the_least_looked_at_goes_first(tmp_path: Path) -> None:
    database = filled(tmp_path, 1, 2, 3)
    rows = [row | {"attempt_id": attempt} for attempt in (1, 2, 3) for row in recorded(0)[0]]
    database.writer.run(lambda session: session.execute(insert(StepRow), rows))
    cache = StepCache(max_bytes=2 * STEPS * STEP.itemsize)
    with database.read() as session:
        for attempt in (1, 2, 1, 3):
            assert len(cache.steps(session, JOB, attempt, 1)) == STEPS
    assert [attempt for _, attempt in cache._kept] == [1, 3]
    database.close()


@pytest.mark.parametrize("points", [7, 50, 1000])
def test_groups_hold_means_and_extremes_of_what_is_known(points: int) -> None:
    steps = expected(recorded(5))
    found = grouped(steps, points)
    stride = -(-STEPS // min(points, STEPS))
    assert len(found) == -(-STEPS // stride) <= points
    for row, first in zip(found, range(0, STEPS, stride), strict=True):
        own = steps[first : first + stride]
        assert (row["step"], row["end"]) == (own["step"][-1], own["end"].max())
        for name in ("loss", "iteration"):
            known = own[name][~np.isnan(own[name])]
            wanted = (known.mean(), known.min(), known.max()) if len(known) else (np.nan,) * 3
            assert (row[name], row[f"{name}_min"], row[f"{name}_max"]) == pytest.approx(wanted, nan_ok=True)
        timed = own[~np.isnan(own["iteration"])]
        speed = 1e9 * timed["samples"].sum() / timed["iteration"].sum() if len(timed) else np.nan
        assert row["samples_per_s"] == pytest.approx(speed, nan_ok=True)
    assert len(grouped(steps[:0], points)) == 0
