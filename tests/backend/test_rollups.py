"""Sums over groups of steps: the same as the sums of what they are made of, whatever the range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from alembic import command
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.engine import open_engine
from backend.db.migrate import alembic_config
from backend.db.models import Base, Batch, DetailedStep, LayerTotal, LayerWait, TransferTotal
from backend.figures import bins, rolled
from backend.figures.heatmap import heatmap
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from engine.telemetry.batch import decode
from engine.telemetry.events import LEVELS, Kind
from tests.backend.recorded_run import Run, record_run

STEPS = 75
"""More than a group of 64."""
WORKERS = 2


@pytest.fixture(scope="module")
def run(database: Database) -> Run:
    return record_run(database, "p3", steps=STEPS)


def exposed(session: Session, attempt: int, first: int, last: int) -> dict[int, int]:
    """By layer, from the totals of single steps."""
    of = LayerTotal
    query = select(of.layer, func.sum(of.exposed_ns)).where(
        of.attempt_id == attempt, of.step >= first, of.step <= last, of.exposed_ns > 0
    )
    return {layer: int(ns) for layer, ns in session.execute(query.group_by(of.layer))}


@pytest.mark.parametrize(
    ("first", "last"), [(0, STEPS - 1), (3, 70), (8, 15), (7, 8), (63, 64), (5, 5), (9, 8)]
)
def test_any_range_of_steps_has_its_exact_sum(database: Database, run: Run, first: int, last: int) -> None:
    with database.read() as session:
        found = rolled.exposed_by_layer(session, run.attempt, first, last)
        assert found == exposed(session, run.attempt, first, last)
    assert bool(found) == (first <= last)


def test_blocks_cover_a_range_once_with_few_rows() -> None:
    for first, last in ((0, 0), (1, 4095), (17, 100_000), (0, 8**5 * 3), (4096, 8191)):
        blocks = list(rolled._blocks(first, last))
        covered = np.zeros(last + 2, int)
        for level, start, end in blocks:
            assert start % 8**level == end % 8**level == 0
            covered[start:end] += 1
        assert (covered[first : last + 1] == 1).all()
        assert covered.sum() == last - first + 1
        assert (
            sum((end - start) // 8**level for level, start, end in blocks) <= 14 * 5 + (last - first) // 4096
        )


@pytest.mark.parametrize("size", [1, 8, 64])
def test_groups_of_steps_are_sums_of_steps(database: Database, run: Run, size: int) -> None:
    with database.read() as session:
        found = rolled.waits(session, run.attempt, 0, STEPS - 1, size)
        assert set(found["step"] % size) == {0}
        for start in range(0, STEPS, size):
            own = found[found["step"] == start]
            waited = dict(zip(own["layer"].tolist(), own["exposed"].tolist(), strict=True))
            assert waited == exposed(session, run.attempt, start, start + size - 1)
        sends = [
            row for row in rolled.transfers(session, run.attempt, 0, STEPS - 1, size) if row[2] == Kind.SEND
        ]
        recorded = sum(e["end"] - e["start"] for e in run.events if e["kind"] == Kind.SEND)
        assert sum(busy for *_, busy in sends) == recorded


def test_shares_of_groups_follow_from_those_of_steps(database: Database, run: Run) -> None:
    with database.read() as session:
        source = Source(session, run.job_id)
        each, groups = source.track_shares(0, STEPS - 1, 1), source.track_shares(0, STEPS - 1, 10)
    assert len(each) == STEPS * WORKERS
    assert {int(row["step"]) % 16 for row in groups} == {0}  # two groups of the rollup in each
    for row in groups:
        own = each[(each["party"] == row["party"]) & (each["step"] // 16 == row["step"] // 16)]
        length = own["end"] - own["start"]
        assert row["send"] == pytest.approx(
            (own["send"] * length).sum() / (row["end"] - row["start"]), rel=1e-6
        )


def test_steps_with_detail_are_those_of_all_workers(database: Database) -> None:
    few, every = (
        record_run(database, "few", steps=40, detail="chosen"),
        record_run(database, "every", steps=6),
    )
    with database.read() as session:
        assert Source(session, every.job_id).detailed_steps().tolist() == list(range(6))
        kept: dict[int, set[int]] = {}
        for party, body in session.execute(select(Batch.party, Batch.body).filter_by(attempt_id=few.attempt)):
            kept.setdefault(party, set()).update(decode(body).table("events")["step"].tolist())
        common = sorted(kept[0] & kept[1])
        assert common
        assert Source(session, few.job_id).detailed_steps().tolist() == common
        assert rolled.detailed_steps(session, every.attempt, workers=5).tolist() == []


def test_a_heat_map_of_many_steps_reads_few_rows(
    database: Database, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = FigureRequest(from_ns=0, to_ns=10**12, width=1200)
    with database.read() as session:
        source = Source(session, run.job_id)
        whole = heatmap(source, request).data[0]
        monkeypatch.setattr("backend.figures.heatmap.MAX_CELLS", 6 * 12)
        coarse = heatmap(source, request).data[0]
    assert np.shape(whole.z)[1] == STEPS
    assert np.shape(coarse.z)[1] == -(-STEPS // 8)
    length = np.diff(np.asarray(coarse.x))
    waited = (np.asarray(whole.z, float) * np.diff(np.asarray(whole.x))).sum()
    assert (np.asarray(coarse.z, float) * length).sum() == pytest.approx(waited, rel=0.05)


def test_figures_of_bins_read_no_more_than_they_may(
    database: Database, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = FigureRequest(from_ns=2 * 10**9, to_ns=3 * 10**9, width=1200)
    with database.read() as session:
        source = Source(session, run.job_id)
        links = source.links()
        found = bins.bin_window(source, links, request)
        assert found is not None
        assert (found.level, found.margins) == (0, 1)
        rows = sum(source.count_bins(link, 0, *found.covered_bins, 10**6) for link in links)
        assert rows == sum(len(source.bins(link, 0, *found.covered_bins)) for link in links)
        for most, expected in ((rows, (0, 1)), (rows - 1, (0, 0)), (1, (LEVELS - 1, 1))):
            monkeypatch.setattr(bins, "MAX_BINS", most)
            narrower = bins.bin_window(source, links, request)
            assert narrower is not None
            assert (narrower.level, narrower.margins) == expected
            first, last = narrower.covered_bins
            assert first * narrower.bin_ns <= request.from_ns  # type: ignore[operator]
            assert (last + 1) * narrower.bin_ns >= request.to_ns  # type: ignore[operator]


def test_what_was_recorded_before_is_summed_by_the_migration(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    record_run(database, "p3", steps=12)
    database.close()
    tables = (LayerWait, TransferTotal, DetailedStep)
    engine = open_engine(database.url, readonly=False)

    def content(model: type[Base]) -> list[tuple[object, ...]]:
        with engine.begin() as connection:
            return sorted(tuple(row) for row in connection.execute(select(model.__table__)))

    before = [content(model) for model in tables]
    config = alembic_config()
    for move in (command.downgrade, command.upgrade):
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            move(config, "0004" if move is command.downgrade else "head")
    assert [content(model) for model in tables] == before
    assert all(before)
    engine.dispose()
