"""How stale contributions were, from what servers record to what is answered and drawn: the same numbers everywhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from sqlalchemy import func, select

from backend.db import Database
from backend.db.models import StalenessCount, StalenessWindow
from backend.figures import drifted
from backend.figures.registry import figure
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.ingest import accept
from engine.telemetry.events import LEVELS, STALENESS_LEVEL
from engine.telemetry.recorder import Recorder
from engine.telemetry.staleness import WIDE_NS
from tests.backend.figures_drawn import answer, column, traces
from tests.backend.recorded_run import LAYERS, MS, TOKEN, add_job

SERVER, WORKERS, STEPS = 2, 2, 300
STEP_NS = (90 * MS, 130 * MS)
"""Of each worker: the first one pulls ahead."""


@dataclass(kw_only=True)
class Drifting:
    """What was recorded of a job."""

    job_id: str
    attempt: int
    applied: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(time in ns, layer, worker, staleness) of every contribution."""


@pytest.fixture(scope="module")
def run(database: Database) -> Drifting:
    job_id, attempt = add_job(
        database, "drifting", strategy="async-sgd", consistency={"mode": "asynchronous"}
    )
    return record(database, job_id, attempt)


def record(database: Database, job_id: str, attempt: int) -> Drifting:
    """Two workers of unequal speed, each step's contributions to all layers at once, with staleness drawn from a seed;
    the server's batches come in three parts."""
    run, random = Drifting(job_id=job_id, attempt=attempt), Random(5)
    for worker in range(WORKERS):
        recorder = Recorder(worker, f"worker {worker}", lambda: 0, None, attempt=attempt, flush_s=3600)
        for step in range(STEPS):
            start = step * STEP_NS[worker]
            recorder.step(step, start=start, end=start + STEP_NS[worker], samples=32, loss=1.0)
            for layer in range(len(LAYERS)):
                staleness = 40 if random.random() < 0.01 else random.randrange(1 + 2 * worker + layer)
                run.applied.append((start + STEP_NS[worker], layer, worker, staleness))
        recorder.close()
        for body in recorder.memory:
            accept(database, attempt, TOKEN, body)
    server = Recorder(SERVER, "server 0", lambda: 0, None, attempt=attempt, flush_s=3600)
    run.applied.sort()
    for at, (at_ns, layer, worker, staleness) in enumerate(run.applied):
        server.staleness.count(layer, worker, staleness, at_ns)
        if at % (len(run.applied) // 2) == 0:
            server.flush()
    server.close()
    assert len(server.memory) == 3
    for body in (*server.memory, server.memory[1]):  # one of them comes again
        accept(database, attempt, TOKEN, body)
    return run


def test_every_contribution_is_stored_once(database: Database, run: Drifting) -> None:
    counts = Counter((layer, worker, staleness) for _, layer, worker, staleness in run.applied)
    with database.read() as session:
        of = StalenessCount
        rows = session.execute(
            select(of.layer, of.worker, of.staleness, of.count).where(of.attempt_id == run.attempt)
        )
        assert {tuple(row[:3]): row[3] for row in rows} == counts
        for level in range(STALENESS_LEVEL, LEVELS):
            wide = WIDE_NS * 8 ** (level - STALENESS_LEVEL)
            windows = Counter((at // wide, worker, staleness) for at, _, worker, staleness in run.applied)
            row = StalenessWindow
            found = session.execute(
                select(row.bin, row.worker, row.staleness, row.count).where(
                    row.attempt_id == run.attempt, row.level == level
                )
            )
            assert {tuple(one[:3]): one[3] for one in found} == windows
        everything = select(func.min(StalenessWindow.level), func.max(StalenessWindow.level))
        assert session.execute(everything).one() == (STALENESS_LEVEL, LEVELS - 1)


def test_histograms_are_of_every_worker_and_every_layer(database: Database, run: Drifting) -> None:
    with database.read() as session:
        source = Source(session, run.job_id)
        assert source.drifts()
        found = {"worker": source.stale_by_worker(), "layer": source.stale_by_layer()}
    for which, (name, count) in enumerate((("layer", len(LAYERS)), ("worker", WORKERS)), start=1):
        assert sorted(found[name]) == list(range(count))
        for one, histogram in found[name].items():
            own = [each[3] for each in run.applied if each[which] == one]
            assert dict(zip(histogram.staleness.tolist(), histogram.count.tolist(), strict=True)) == Counter(
                own
            )
            assert histogram.mean == pytest.approx(np.mean(own))
            assert histogram.most == max(own)
    assert drifted.together(list(found["layer"].values())).contributions == len(run.applied)


@pytest.mark.parametrize("most", [5, 15, 240])
def test_a_course_has_each_windows_mean_and_most_and_who_is_ahead(
    database: Database, run: Drifting, most: int
) -> None:
    with database.read() as session:
        course = Source(session, run.job_id).course(most)
    edges = course.edges_ns
    assert most / 2 < len(edges) - 1 <= most or np.diff(edges)[0] == WIDE_NS
    assert len(set(np.diff(edges).tolist())) == 1
    assert edges[0] <= run.applied[0][0]
    assert edges[-1] > run.applied[-1][0]
    for window, (begin, end) in enumerate(pairwise(edges.tolist())):
        within = [each for each in run.applied if begin <= each[0] < end]
        assert course.most[window] == max((each[3] for each in within), default=-1)
        for worker in range(WORKERS):
            own = [each[3] for each in within if each[2] == worker]
            assert course.mean[worker, window] == pytest.approx(np.mean(own) if own else np.nan, nan_ok=True)
            assert course.steps_by_window[worker, window] == min(end // STEP_NS[worker], STEPS)
    for worker, length in enumerate(STEP_NS):
        assert course.steps[worker].tolist() == [min(at // length, STEPS) for at in course.at_ns.tolist()]
    assert most / 2 < len(course.at_ns) <= most
    assert course.at_ns[-1] == edges[-1]
    assert (course.ahead.min(axis=0) == 0).all()
    assert course.ahead[0].max() > 50, "the first worker was far ahead in between"


def test_of_a_short_run_it_is_known_who_was_ahead_within_a_window(database: Database) -> None:
    job_id, attempt = add_job(database, "short", consistency={"mode": "softsync"})
    for worker, step_ns in enumerate((10 * MS, 20 * MS)):
        recorder = Recorder(worker, f"worker {worker}", lambda: 0, None, attempt=attempt, flush_s=3600)
        recorder.staleness.count(0, worker, 1, 0)
        for step in range(20):
            recorder.step(step, start=step * step_ns, end=(step + 1) * step_ns, samples=1)
        recorder.close()
        for body in recorder.memory:
            accept(database, attempt, TOKEN, body)
    with database.read() as session:
        course, coarse = Source(session, job_id).course(64), Source(session, job_id).course(1)
    assert course.most_ahead.tolist() == coarse.most_ahead.tolist() == [10, 0]
    assert (len(course.most), len(course.at_ns)) == (1, 64)
    assert course.ahead[0].max() == 10, "the figure shows what the headline says"
    assert course.steps_by_window.tolist() == [[20], [20]]


def test_of_a_long_run_some_steps_are_read_and_the_last_ones(
    database: Database, run: Drifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = np.array([0, STEP_NS[1], 7 * STEP_NS[0], 20_000 * MS, 10**12])
    with database.read() as session:
        exact = drifted.ended(session, run.attempt, WORKERS, at)
        monkeypatch.setattr(drifted, "MOST_SAMPLED", 40)
        assert drifted.ended(session, run.attempt, WORKERS, at).tolist() == exact.tolist()
        assert drifted.ended(session, -1, WORKERS, at).tolist() == [[0] * 5] * 2


def test_classes_follow_one_another_without_gaps() -> None:
    assert drifted.classes(0) == [(0, 0)]
    assert drifted.classes(7) == [(value, value) for value in range(8)]
    for most in (8, 15, 16, 1000, 2**31 - 1):
        found = drifted.classes(most)
        assert found[0][0] == 0
        assert found[-1][0] <= most <= found[-1][1]
        assert all(high + 1 == low for (_, high), (low, _) in pairwise(found))
        assert len(found) < 40
    histogram = drifted.Histogram(staleness=np.array([0, 7, 8, 15, 16]), count=np.array([1, 2, 3, 4, 5]))
    assert histogram.within(drifted.classes(16)).tolist() == [1, 0, 0, 0, 0, 0, 0, 2, 7, 5]


def drawn(database: Database, job_id: str, name: str, **request: object) -> dict:
    with database.read() as session:
        return answer(figure(name).draw(Source(session, job_id), FigureRequest(**request)))  # type: ignore[arg-type]


def test_the_figures_draw_what_was_recorded(database: Database, run: Drifting) -> None:
    bars = traces(content := drawn(database, run.job_id, "staleness"), "bar")
    assert [bar["name"] for bar in bars] == [
        "0: not stale", *map(str, range(1, 8)), "8 to 15", "16 to 31", "32 to 63",
    ]  # fmt: skip
    rows = list(bars[0]["y"])
    assert rows[:3] == ["all workers", "worker 0", "worker 1"]
    assert len(rows) == 3 + len(LAYERS)
    shares = np.array([column(bar["x"]) for bar in bars])
    assert shares.sum(axis=0) == pytest.approx(1)
    all_of = [each[3] for each in run.applied]
    assert shares[0, 0] == pytest.approx(all_of.count(0) / len(all_of))
    assert shares[-1, 0] == pytest.approx(all_of.count(40) / len(all_of))
    assert f"{len(all_of):,} contributions" in content["layout"]["meta"]["alt"]
    assert f"{np.mean(all_of):.3g} updates stale on average, at most 40" in content["layout"]["meta"]["alt"]

    content = drawn(database, run.job_id, "drift")
    data = [trace for trace in traces(content, "scatter") if trace.get("hoverinfo") != "skip"]
    lines = [(trace["name"], trace.get("yaxis", "y")) for trace in data]
    assert lines == [
        ("worker 0", "y"), ("worker 0", "y2"), ("worker 1", "y"), ("worker 1", "y2"), ("highest of all", "y"),
    ]  # fmt: skip
    with database.read() as session:
        course = Source(session, run.job_id).course(240)
    said = f"worker 0 was up to {course.most_ahead.max()} steps ahead of the slowest"
    assert said in content["layout"]["meta"]["alt"]
    assert column(data[1]["y"]).tolist() == course.ahead[0].tolist()
    # A window's mean is drawn over the whole window.
    steps = [trace for trace in traces(content, "scatter") if trace.get("hoverinfo") == "skip"]
    assert [trace["name"] for trace in steps] == ["worker 0", "worker 1", "highest of all"]
    x, y = column(steps[0]["x"]).reshape(-1, 2), column(steps[0]["y"]).reshape(-1, 2)
    assert (x * 1e9).round().tolist() == np.column_stack([course.edges_ns[:-1], course.edges_ns[1:]]).tolist()
    np.testing.assert_allclose(y.T, [course.mean[0]] * 2)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("every-step", "wait for one another"), ("asynchronous", "no contribution was applied")],
)
@pytest.mark.parametrize("name", ["staleness", "drift"])
def test_where_there_is_none_the_figure_says_why(
    database: Database, name: str, mode: str, words: str
) -> None:
    job_id, _ = add_job(database, mode, consistency={"mode": mode})
    meta = drawn(database, job_id, name)["layout"]["meta"]
    assert meta["empty"]
    assert words in meta["alt"]


def test_many_workers_and_layers_have_few_rows(database: Database) -> None:
    job_id, attempt = add_job(database, "wide", workers=100)
    server = Recorder(SERVER, "server 0", lambda: 0, None, attempt=attempt, flush_s=3600)
    for worker in range(100):
        server.staleness.count(worker % 6, worker, worker, 0)
    server.staleness.count(9, 120, 3, 0)  # belongs to no layer, and no worker, of the job
    server.close()
    for body in server.memory:
        accept(database, attempt, TOKEN, body)
    bars = traces(drawn(database, job_id, "staleness"), "bar")
    rows = list(bars[0]["y"])
    assert rows[0] == "all workers"
    assert len(rows) == 1 + 32 + 6
    data = [
        trace
        for trace in traces(drawn(database, job_id, "drift"), "scatter")
        if trace.get("hoverinfo") != "skip"
    ]
    assert len(data) == 2 * 16 + 1
