"""The race: aligned starts, true finishes, and a headline that says no more than the data do."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, Job, StepRow
from backend.figures.base import format_ms
from backend.figures.compared import compare
from backend.figures.race import Race, RaceRow, _before_finish, race
from backend.figures.request import FigureRequest
from backend.figures.source import SPAN, Source
from backend.figures.speed import measure
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


@pytest.mark.parametrize("width", [300, 390, 560, 1280])
@pytest.mark.parametrize("name", ["p3", "parameter-server in a race of many rates, round 12"])
def test_captions_do_not_overlap_and_end_within_the_drawing(
    database: Database, fifo: Run, p3: Run, monkeypatch: pytest.MonkeyPatch, width: int, name: str
) -> None:
    monkeypatch.setattr("backend.figures.race.names_of", lambda jobs: [name] * len(jobs))
    with database.read() as session:
        drawn = race(session, [fifo.job_id, p3.job_id], FigureRequest(step=10, width=width)).figure
    layout = answer(drawn)["layout"]
    plot = width - (100 if width < 500 else 150)
    left, right = layout["xaxis"]["range"]
    by_row: dict[float, list[tuple[float, float]]] = {}
    for note in layout["annotations"]:
        text = re.sub("<[^>]+>", "", note["text"])
        pixels = 7.6 * len(text)  # less than a bold letter of 14 pixels takes
        at = 0.0 if note["xref"] == "x domain" else (note["x"] - left) / (right - left) * plot - 35
        by_row.setdefault(note["y"], []).append((at, at + (70 if "ms" in text[:8] else pixels)))
    assert len(by_row) == 2
    for spans in by_row.values():
        (_, *ends) = [edge for span in sorted(spans) for edge in span]
        assert ends == sorted(ends), "one begins before the other ends"
        assert max(ends) <= plot + 35


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


def test_waits_after_a_workers_finish_are_no_part_of_the_race(database: Database, fifo: Run, p3: Run) -> None:
    """A narrow figure shows more of the step that follows, and lists the same."""
    listed = []
    for width in (390, 1280):
        with database.read() as session:
            request = FigureRequest(step=10, width=width)
            drawn = race(session, [fifo.job_id, p3.job_id], request).figure
        listed.append(answer(drawn)["layout"]["meta"]["waits"])
    assert listed[0] == listed[1]
    for wait in listed[0]:
        run = (fifo, p3)[wait["job"]]
        same = ("party", "step", "layer")
        (start,) = {
            e["start"]
            for e in run.events
            if e["kind"] == Kind.WAIT
            and all(e[name] == wait[name] for name in same)
            and e["end"] - e["start"] == wait["ns"]
        }
        assert start < run.starts[wait["party"], 11]


def test_a_device_that_has_no_steps_of_its_own_waits_until_the_last_worker_has_finished() -> None:
    spans = np.zeros(6, SPAN)
    spans["party"] = [0, 0, 1, 1, 2, 2]
    spans["start"] = [109, 111, 129, 131, 129, 131]
    part, speed = SimpleNamespace(spans=spans, origin_ns=100), SimpleNamespace()
    lane = RaceRow(part=part, top=0.0, finishes={0: 10, 1: 30}, speed=speed)  # type: ignore[arg-type]
    assert _before_finish(lane)["start"].tolist() == [109, 129, 129]


def test_the_headline_names_the_layer_that_blocked(database: Database, fifo: Run, p3: Run) -> None:
    iteration = {
        run.job_id: np.median(
            [max(run.starts[w, s + 1] - run.starts[w, s] for w in (0, 1)) for s in range(5, 23)]
        )
        for run in (fifo, p3)
    }
    times = iteration[fifo.job_id] / iteration[p3.job_id]
    text = run_race(database, fifo, p3).headline
    gain, _, rest = text.removeprefix("In one run of each, p3 finishes a step ").partition("x")
    assert float(gain) == pytest.approx(times, abs=0.02)
    assert rest.startswith(" sooner than parameter-server: classifier.fc5 no longer blocks features.conv1")
    assert run_race(database, p3, fifo).headline == text


def test_equal_jobs_have_no_winner(database: Database, fifo: Run) -> None:
    twin = record_run(database, "twin", steps=24, started=2000)
    assert run_race(database, fifo, twin).headline.startswith("No significant difference")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 128}, "global batch: 64 in parameter-server, 128 in other"),
        ({"model": "alexnet"}, "work: vgg-small on digits, float32 in parameter-server, alexnet on digits"),
    ],
)
def test_unequal_jobs_are_not_compared(database: Database, changes: dict[str, object], reason: str) -> None:
    base = record_run(database, "parameter-server", steps=12, started=10_000)
    other = record_run(database, "other", steps=12, **{"started": 20_000, **changes})
    found = run_race(database, base, other)
    assert found.headline.startswith("Not comparable")
    assert reason in found.headline
    assert firsts(found) == [], "whose step is other work finishes nothing sooner"


def firsts(found: Race) -> list[str]:
    """The finishes that are called the first."""
    return [text for text in notes(answer(found.figure)).split(" | ") if text.endswith(" first")]


def test_the_job_that_finishes_first_is_called_so(database: Database, fifo: Run, p3: Run) -> None:
    found = run_race(database, fifo, p3, step=10)
    finishes = answer(found.figure)["layout"]["meta"]["finishes_ns"]
    assert finishes[1] < finishes[0]
    (said,) = firsts(found)
    assert said == f"<b>{format_ms(finishes[1])}</b> first"
    # Nobody is, where one of three has another batch: nobody but the other one can be measured by that.
    third = record_run(database, "third", steps=24, started=60_000, batch=128)
    assert firsts(run_race(database, fifo, p3, third, step=10)) == []


def record_steps(
    database: Database, name: str, started: int, lengths_ms: list[int], period: int | None, workers: int = 2
) -> str:
    """A job of nothing but steps, each worker's of these lengths, what is over 10 ms of it exposed."""
    job_id, attempt = add_job(database, name, started=started, period=period, workers=workers)
    ends = np.cumsum(lengths_ms).tolist()

    def write(session: Session) -> None:
        for party in range(workers):
            for step, (length, end) in enumerate(zip(lengths_ms, ends, strict=True)):
                times = {"start_ns": (end - length) * 10**6, "end_ns": end * 10**6}
                row = StepRow(
                    attempt_id=attempt, step=step, party=party, samples=64 // workers, loss=1.0, **times
                )
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
    assert shown.headline.startswith("In one run of each, always finishes a step 1.33x sooner than averages")
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


def test_what_a_job_sends_in_a_step_is_the_sum_over_its_parties(database: Database, fifo: Run) -> None:
    with database.read() as session:
        source = Source(session, fifo.job_id)
        spans = source.spans(0, source.trained_until())
        sent = spans[(spans["kind"] == Kind.SEND) & (spans["step"] >= 8) & (spans["step"] <= 11)]
        assert len(set(sent["party"].tolist())) > 1
        assert source.sent_bytes(8, 11) == pytest.approx(sent["bytes"].sum() / 4)
        assert source.sent_bytes(1_000, 1_001) is None


def test_steps_that_some_job_did_not_keep_are_skipped(database: Database, fifo: Run) -> None:
    chosen = record_run(database, "chosen", steps=120, started=3000, detail="chosen", link_samples=False)
    result = run_race(database, fifo, chosen, step=3)
    assert (result.step, result.steps["previous"], result.steps["next"]) == (3, 2, 4)
    assert run_race(database, fifo, chosen, step=10_000).step == result.steps["max"]


def test_a_race_before_the_first_step_says_so(database: Database, fifo: Run) -> None:
    waiting = Run(*add_job(database, "waiting", started=4000))
    result = run_race(database, fifo, waiting)
    assert result.step is None
    assert result.headline == "Nobody can tell for sure: waiting ended 14 steps too early"
    assert "No events of waiting: it ended before the first step had ended" in notes(answer(result.figure))
    runs = Run(*add_job(database, "runs", started=10**15, state="running"))
    assert "No events yet" in notes(answer(run_race(database, fifo, runs).figure))


def test_a_headline_never_contradicts_the_table(database: Database) -> None:
    """One worker, and the same global batch on two: the table said 1.26, 1.32 and 1.43, the headline that they do not
    compare."""
    lengths = {"single": 60, "average": 48, "tree": 45, "p3": 42, "equal": 60, "threads": 30}
    jobs = {}
    for number, (name, length) in enumerate(lengths.items()):
        workers = 1 if name == "single" else 2
        jobs[name] = record_steps(database, name, 70_000 + 1_000 * number, [length] * 40, None, workers)

    def write(session: Session) -> None:
        job = session.get_one(Job, jobs["threads"])
        job.spec = {**job.spec, "cluster": {**job.spec["cluster"], "threads": 2}}
        # Defaults, written out: they change nothing.
        job = session.get_one(Job, jobs["p3"])
        job.spec = {**job.spec, "model": {"name": "vgg-small", "options": {"classes": 10}}}

    database.writer.run(write)
    told = {}
    with database.read() as session:
        for name, job_id in jobs.items():
            if name == "single":
                continue
            result = compare(Source(session, job_id), Source(session, jobs["single"])).result
            text = race(session, [jobs["single"], job_id], FigureRequest()).headline
            told[name] = result.value
            assert text.startswith("Not comparable") == (result.verdict == "refused"), text
            assert text.startswith("No significant") == (result.verdict == "level"), text
            if result.verdict == "faster":
                assert text.startswith(
                    f"In one run of each, {name} finishes a step {result.value:.2f}x sooner than single (strong"
                )
        whole = race(session, [jobs[name] for name in list(lengths)[:4]], FigureRequest()).headline
    assert told.pop("threads") is None
    assert told == pytest.approx({"average": 1.25, "tree": 4 / 3, "p3": 10 / 7, "equal": 1.0})
    assert whole.startswith(
        "In one run of each, p3 finishes a step 1.07x sooner than tree, 1.14x sooner than average, 1.43x sooner than "
    )
    assert whole.endswith("single (strong scaling: equal global batch, 2 and 1 workers)")


def test_an_own_model_is_the_same_one_with_its_defaults_written_out(database: Database) -> None:
    """Of what nobody kept the defaults, as another version did not, the text is all that is known."""
    jobs = {
        name: record_steps(database, name, 90_000 + at, [20] * 40, None) for at, name in enumerate("abcd")
    }
    options = {"a": {}, "b": {"hidden": 64}, "c": {"hidden": 32}, "d": {"hidden": 64}}

    def write(session: Session) -> None:
        for name, job_id in jobs.items():
            job = session.get_one(Job, job_id)
            model = {"entrypoint": "mine:build", "directory": "/home/me", "options": options[name]}
            job.spec = {**job.spec, "model": model}
            kept = {} if name == "d" else {"defaults": {"model": {"hidden": 64}}}
            job.description = {**(job.description or {}), **kept}

    database.writer.run(write)
    with database.read() as session:
        verdicts = [
            compare(Source(session, jobs[name]), Source(session, jobs["a"])).result.verdict for name in "bcd"
        ]
    assert verdicts == ["level", "refused", "refused"]
