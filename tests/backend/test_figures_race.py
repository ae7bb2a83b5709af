"""The race: aligned starts, true finishes, and a headline that says no more than the data do."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, Job, StepRow
from backend.figures.headline import Contender, headline
from backend.figures.race import Race, race
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed import Speed, measure
from backend.figures.step_time import step_time
from backend.services.progress import ProgressReader
from engine.telemetry.events import Kind
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.recorded_run import Run, add_job, record_run

SECOND = 1e9
REHEARSED = "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15"


@pytest.fixture(scope="module")
def fifo(database: Database) -> Run:
    return record_run(database, "parameter-server", steps=24, started=0)


@pytest.fixture(scope="module")
def p3(database: Database) -> Run:
    return record_run(database, "p3", priority=True, slices=8, steps=24, started=1000)


def run_race(database: Database, *runs: Run, step: int | None = None) -> Race:
    with database.read() as session:
        return race(session, [run.job_id for run in runs], FigureRequest(step=step))


def test_a_stretch_of_the_step_counts_from_each_jobs_own_start(
    database: Database, fifo: Run, p3: Run
) -> None:
    whole = answer(run_race(database, fifo, p3, step=10).figure)["layout"]
    last = max(whole["meta"]["finishes_ns"])
    window = (last // 4, last // 2)
    with database.read() as session:
        request = FigureRequest(step=10, from_ns=window[0], to_ns=window[1])
        close = answer(race(session, [fifo.job_id, p3.job_id], request).figure)["layout"]
    assert (close["meta"]["from_ns"], close["meta"]["to_ns"]) == window
    assert close["xaxis"]["range"] == pytest.approx([edge / SECOND for edge in window])
    assert close["meta"]["origins_ns"] == whole["meta"]["origins_ns"]
    assert close["meta"]["finishes_ns"] == whole["meta"]["finishes_ns"]
    assert close["uirevision"] == whole["uirevision"]


@pytest.mark.parametrize("first", [0.9, 40.0, -(2**60) / SECOND], ids=["between finishes", "after", "before"])
def test_a_job_without_events_in_view_keeps_its_rows_and_its_finish(
    database: Database, fifo: Run, p3: Run, first: float
) -> None:
    """The last step, after which nothing was recorded."""
    whole = answer(run_race(database, fifo, p3, step=23).figure)["layout"]
    last = max(whole["meta"]["finishes_ns"])
    start = round(first * (last if first < 1 else SECOND))
    with database.read() as session:
        request = FigureRequest(step=23, from_ns=max(start, -(2**60)), to_ns=max(start, -(2**60)) + 1_000)
        close = answer(race(session, [fifo.job_id, p3.job_id], request).figure)["layout"]
    assert close["yaxis"]["ticktext"] == whole["yaxis"]["ticktext"]
    assert close["yaxis"]["tickvals"] == whole["yaxis"]["tickvals"]
    assert close["meta"]["finishes_ns"] == whole["meta"]["finishes_ns"]


def test_every_job_starts_at_zero_and_finishes_at_its_next_forward(
    database: Database, fifo: Run, p3: Run
) -> None:
    result = run_race(database, fifo, p3, step=10)
    content = answer(result.figure)
    meta = content["layout"]["meta"]
    for place, run in enumerate((fifo, p3)):
        origin = min(run.starts[w, 10] for w in (0, 1))
        assert meta["origins_ns"][place] == origin
        assert meta["finishes_ns"][place] == max(run.starts[w, 11] for w in (0, 1)) - origin
        starts = {e["start"] - origin for e in run.events if e["step"] == 10 and e["kind"] == Kind.WAIT}
        drawn = np.concatenate(
            [
                column(t["base"])[
                    (column(t["customdata"])[:, 0] == place) & (column(t["customdata"])[:, 2] == 10)
                ]
                for t in traces(content, "bar")
                if t["name"] == "exposed wait"
            ]
        )
        assert sorted(drawn.tolist()) == pytest.approx(sorted(s / SECOND for s in starts), abs=1e-6)


def test_finish_lines_stand_at_each_workers_next_forward(database: Database, fifo: Run, p3: Run) -> None:
    content = answer(run_race(database, fifo, p3, step=10).figure)
    lines = [t for t in traces(content, "scatter") if t["name"] == "steps"]
    for run, line in zip((fifo, p3), lines, strict=True):
        origin = min(run.starts[w, 10] for w in (0, 1))
        drawn = column(line["x"]).reshape(-1, 3)[:, 0]
        expected = [(run.starts[w, 11] - origin) / SECOND for w in (0, 1)]
        assert drawn.tolist() == pytest.approx(expected)


def test_the_headline_names_the_layer_that_blocked(database: Database, fifo: Run, p3: Run) -> None:
    iteration = {
        run.job_id: np.median(
            [max(run.starts[w, s + 1] - run.starts[w, s] for w in (0, 1)) for s in range(5, 23)]
        )
        for run in (fifo, p3)
    }
    percent = 100 * (1 - iteration[p3.job_id] / iteration[fifo.job_id])
    text = run_race(database, fifo, p3).headline
    assert text.startswith("p3 finishes a step ")
    assert float(text.split()[4]) == pytest.approx(percent, abs=1.0)
    assert text.endswith(": fc5 no longer blocks conv1")
    assert run_race(database, p3, fifo).headline == text


def test_equal_jobs_have_no_winner(database: Database, fifo: Run) -> None:
    twin = record_run(database, "twin", steps=24, started=2000)
    assert run_race(database, fifo, twin).headline.startswith("No significant difference")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 128}, "global batch: 64 in parameter-server, 128 in other"),
        ({"model": "alexnet"}, "model: vgg-small in parameter-server, alexnet in other"),
        ({"started": 50}, "ran at the same time as another job"),
    ],
)
def test_unequal_jobs_are_not_compared(database: Database, changes: dict[str, object], reason: str) -> None:
    base = record_run(database, "parameter-server", steps=12, started=10_000)
    if "started" in changes:
        changes = {"started": 10_050}
    other = record_run(database, "other", steps=12, **{"started": 20_000, **changes})
    text = run_race(database, base, other).headline
    assert text.startswith("Not comparable")
    assert reason in text


def record_steps(
    database: Database, name: str, started: int, lengths_ms: list[int], period: int | None
) -> str:
    """A job of nothing but steps, each worker's of these lengths, what is over 10 ms of it exposed."""
    job_id, attempt = add_job(database, name, started=started, period=period)
    ends = np.cumsum(lengths_ms).tolist()

    def write(session: Session) -> None:
        for party in (0, 1):
            for step, (length, end) in enumerate(zip(lengths_ms, ends, strict=True)):
                times = {"start_ns": (end - length) * 10**6, "end_ns": end * 10**6}
                row = StepRow(attempt_id=attempt, step=step, party=party, samples=32, loss=1.0, **times)
                row.exposed_ns, row.compute_ns, row.input_ns = (length - 10) * 10**6, 10**7, 0
                session.add(row)

    database.writer.run(write)
    return job_id


def test_a_job_that_averages_pays_for_its_averages(database: Database) -> None:
    """10 ms a step and 40 more in every fourth is 20 ms a step, though its median step takes 10."""
    averages = record_steps(
        database, "averages", 50_000, [50 if step % 4 == 0 else 10 for step in range(60)], period=4
    )
    always = record_steps(database, "always", 51_000, [15] * 60, period=None)
    with database.read() as session:
        found = measure(Source(session, averages))
        shown = race(session, [averages, always], FigureRequest())
        listed = ProgressReader().of(session, *latest(session, averages))
        parts = step_time(Source(session, averages), FigureRequest())
    assert (found.iteration_ns, found.interval_ns) == (20e6, (20e6, 20e6))
    assert (found.exposed_ns, found.compute_ns) == (10e6, 10e6)
    assert found.samples_per_s == pytest.approx(64 / 0.02)
    assert shown.headline.startswith("always finishes a step 25 % sooner")
    assert (listed.iteration_ns, listed.samples_per_s) == (found.iteration_ns, found.samples_per_s)
    assert listed.exposed_ns == found.exposed_ns
    drawn = {bar["name"]: column(bar["x"]).tolist() for bar in traces(answer(parts), "bar")}
    assert drawn == {"computation": [10.0, 10.0], "exposed communication": [10.0, 10.0]}


def latest(session: Session, job_id: str) -> tuple[Job, Attempt]:
    job = session.get(Job, job_id)
    assert job is not None
    return job, job.attempts[-1]


def test_a_rehearsal_is_called_one(database: Database) -> None:
    one, other = (
        record_run(database, name, steps=12, started=started, fidelity="rehearse")
        for name, started in (("one", 30_000), ("other", 40_000))
    )
    result = run_race(database, one, other)
    assert "one (rehearsed)" in result.headline
    content = answer(result.figure)
    titles = notes(content)
    assert "<b>one (rehearsed)</b>" in titles
    assert "<b>other (rehearsed)</b>" in titles
    assert REHEARSED in titles  # an exported picture carries it along
    assert content["layout"]["meta"]["rehearsed"] == REHEARSED


def test_a_rehearsal_beside_a_job_that_trains_is_told_apart(database: Database, fifo: Run) -> None:
    rehearsed = record_run(database, "replayed", steps=12, started=50_000, fidelity="rehearse")
    meta = answer(run_race(database, fifo, rehearsed).figure)["layout"]["meta"]
    assert meta["rehearsed"] == f"replayed, {REHEARSED}"
    assert "rehearsed" not in answer(run_race(database, fifo, fifo).figure)["layout"]["meta"]


def test_steps_that_some_job_did_not_keep_are_skipped(database: Database, fifo: Run) -> None:
    chosen = record_run(database, "chosen", steps=120, started=3000, detail="chosen", link_samples=False)
    result = run_race(database, fifo, chosen, step=3)
    assert (result.step, result.steps["previous"], result.steps["next"]) == (3, 2, 4)
    assert run_race(database, fifo, chosen, step=10_000).step == result.steps["max"]


def test_a_race_before_the_first_step_says_so(database: Database, fifo: Run) -> None:
    waiting = Run(*add_job(database, "waiting", started=4000))
    result = run_race(database, fifo, waiting)
    assert result.step is None
    assert "Too early to tell" in result.headline
    assert "No events yet" in notes(answer(result.figure))


def contender(name: str, ms: float, exposed: dict[int, float], compute: float = 10) -> Contender:
    speed = Speed(
        first=5,
        last=50,
        iteration_ns=ms * 1e6,
        interval_ns=((ms - 0.1) * 1e6, (ms + 0.1) * 1e6),
        throughput=None,
        exposed_ns=None,
        compute_ns=compute * 1e6,
    )
    return Contender(
        name=name, speed=speed, exposed_ns={k: v * 1e6 for k, v in exposed.items()}, blocker=lambda _: None
    )


def test_headlines_without_a_blocking_layer() -> None:
    name = "conv{}".format
    assert headline([contender("a", 10, {0: 1}), contender("b", 20, {0: 9})], [], name) == (
        "a finishes a step 50 % sooner: conv0 no longer waits"
    )
    assert headline([contender("a", 10, {0: 4}), contender("b", 20, {0: 9})], [], name) == (
        "a finishes a step 50 % sooner: conv0 waits 5 ms less"
    )
    assert headline([contender("a", 10, {}), contender("b", 20, {}, compute=20)], [], name) == (
        "a finishes a step 50 % sooner: it computes 10 ms less"
    )
    assert headline([contender("a", 10, {}), contender("b", 20, {}), contender("c", 10, {})], [], name) == (
        "a finishes a step 50 % sooner than b, level with c"
    )
