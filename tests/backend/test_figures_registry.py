"""Every figure of the catalogue answers for every job, in both themes, for pages and phones, within its
size."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from backend.db import Database
from backend.db.models import Attempt, StepRow
from backend.figures.compared import compare
from backend.figures.memory import MAX_POINTS, highest
from backend.figures.registry import FIGURES, figure
from backend.figures.request import THEMES, FigureRequest
from backend.figures.source import METRIC_ROW, Source
from backend.figures.speed import WINDOW_STEPS, measure
from backend.figures.step_time import straggler
from backend.figures.theme import COLOURS, palette
from backend.figures.timeline import LABEL_PX
from backend.services import progress
from engine.errors import UnknownNameError
from engine.telemetry.definitions import DEFINITIONS, WARM_UP_STEPS
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.recorded_run import MS, Run, add_job, record_run

WIDTHS = (360, 1280)


@pytest.fixture(scope="module")
def baseline(database: Database) -> Run:
    return record_run(database, "parameter-server", steps=16, started=0)


@pytest.fixture(scope="module")
def p3(database: Database, baseline: Run) -> Run:
    return record_run(
        database,
        "p3",
        priority=True,
        slices=4,
        steps=16,
        started=1000,
        baseline=baseline.job_id,
        slow=1.3,
        input_ms=3.0,
        idle_ms=7.0,
    )


@pytest.fixture(scope="module")
def jobs(database: Database, p3: Run) -> dict[str, str]:
    return {
        "whole": p3.job_id,
        "one step": record_run(database, "one step", steps=1, started=2000).job_id,
        "waiting": add_job(database, "waiting", started=3000)[0],
    }


def build(database: Database, job_id: str, name: str, **request: Any) -> dict[str, Any]:
    with database.read() as session:
        return answer(figure(name).draw(Source(session, job_id), FigureRequest(**request)))


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("job", ["whole", "one step", "waiting"])
def test_it_answers_in_every_theme_and_width(
    database: Database, jobs: dict[str, str], job: str, name: str
) -> None:
    # A database knows nothing of looks: of PostgreSQL each is drawn once, and not each with each.
    every = zip if database.shared else itertools.product
    for theme, width in every(THEMES, WIDTHS):
        content = build(database, jobs[job], name, theme=theme, width=width)
        assert content["layout"]["template"]["layout"]["font"]["color"] == COLOURS[theme].text
        assert content["layout"]["meta"]["alt"]
        if job == "waiting":
            assert content["layout"]["meta"]["empty"]
            assert notes(content)


@pytest.mark.parametrize("name", FIGURES)
def test_of_what_has_ended_nothing_is_waited_for(database: Database, jobs: dict[str, str], name: str) -> None:
    assert " yet" not in notes(build(database, jobs["waiting"], name))


def test_what_goes_on_is_waited_for(database: Database) -> None:
    """Also the next attempt of a job, but not the one that has ended."""
    job_id, attempt = add_job(database, "runs", started=10**15, state="running")
    said = {name: notes(build(database, job_id, name)) for name in ("loss", "throughput", "utilization")}
    assert said["loss"] == "No loss yet: the first step has not ended"
    assert said["throughput"] == "No throughput yet: the second step has not started"
    assert said["utilization"] == "No bytes yet: nothing has gone over a link"

    def end(session: Session) -> None:
        session.execute(update(Attempt).where(Attempt.id == attempt).values(ended_unix_ns=9))

    database.writer.run(end)
    said = {name: notes(build(database, job_id, name)) for name in said}
    assert said["loss"] == "No loss: it ended before the first step had ended"
    assert said["throughput"] == "No throughput: it ended before the second step had started"
    assert said["utilization"] == "No bytes: nothing went over a link"


def test_the_view_survives_a_refresh(database: Database, jobs: dict[str, str]) -> None:
    for name in FIGURES:
        first, again = (build(database, jobs["whole"], name, step=3, theme=theme) for theme in THEMES)
        assert first["layout"]["uirevision"] == again["layout"]["uirevision"]


def test_an_unknown_figure_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="timeline"):
        figure("timelime")


def test_the_loss_is_the_recorded_one(database: Database, jobs: dict[str, str]) -> None:
    content = build(database, jobs["whole"], "loss")
    with database.read() as session:
        rows = Source(session, jobs["whole"]).step_rows()
    expected = [rows["loss"][rows["step"] == step].mean() for step in range(16)]
    drawn = column(next(t for t in traces(content, "scatter") if t["name"] == "loss")["y"])
    assert drawn.tolist() == pytest.approx(expected)
    accuracy = next(t for t in traces(content, "scatter") if t["name"] == "test accuracy")
    assert column(accuracy["x"]).tolist() == [4, 9, 14]
    assert content["layout"]["yaxis2"]["range"] == [0, 1]
    best = max(zip(column(accuracy["y"]), column(accuracy["x"]), strict=True))
    said = (
        f"training loss {expected[-1]:.3g} at step 15, best test accuracy {best[0]:.2%} at step {best[1]:.0f}"
    )
    assert content["layout"]["meta"]["alt"] == said


def test_memory_is_what_each_worker_recorded(database: Database, jobs: dict[str, str]) -> None:
    content = build(database, jobs["whole"], "memory")
    lines = {trace["name"]: column(trace["y"]).tolist() for trace in traces(content, "scatter")}
    assert lines == {
        f"worker {w}": pytest.approx([(1e8 + 1e6 * step + w) / 2**20 for step in range(16)]) for w in (0, 1)
    }
    assert content["layout"]["yaxis"]["title"]["text"] == "MiB held"
    assert content["layout"]["meta"]["alt"] == "at the end worker 0 host 109.7 MiB, worker 1 host 109.7 MiB"
    expected = build(database, jobs["whole"], "memory", predicted=2**20)
    line = next(t for t in traces(expected, "scatter") if t["name"].startswith("predicted peak, on top of"))
    assert column(line["y"]).tolist() == pytest.approx(2 * [1e8 / 2**20 + 1]), "on the first sample"
    assert "predicted peak 96.4 MiB" in expected["layout"]["meta"]["alt"]
    rows = np.zeros(2 * MAX_POINTS + 2, METRIC_ROW)
    rows["step"] = rows["value"] = np.arange(len(rows))
    steps, values = highest(rows)
    assert len(steps) <= MAX_POINTS
    assert values[0] == steps[1] - 1, "the largest of each group"


def test_throughput_is_samples_over_iteration_time(database: Database, baseline: Run) -> None:
    content = build(database, baseline.job_id, "throughput")
    drawn = column(next(t for t in traces(content, "scatter") if t["name"] == "samples/s")["y"])
    slowest = [max(baseline.starts[w, s + 1] - baseline.starts[w, s] for w in (0, 1)) for s in range(15)]
    assert drawn.tolist() == pytest.approx([64e9 / ns for ns in slowest])
    with database.read() as session:
        median_ns = measure(Source(session, baseline.job_id)).iteration_ns
    (line,) = (shape["y0"] for shape in content["layout"]["shapes"])
    assert median_ns is not None
    assert line == pytest.approx(median_ns / 1e6)
    (label,) = (note for note in content["layout"]["annotations"] if "median" in note["text"])
    assert (label["yref"], label["y"], label["yanchor"]) == ("y2 domain", 1, "bottom"), "above what is drawn"


def test_the_straggler_is_marked_and_each_part_is_the_recorded_one(database: Database, p3: Run) -> None:
    content = build(database, p3.job_id, "step-time")
    (late,) = content["layout"]["annotations"]
    assert "longer per step" in late["text"]
    assert (late["y"], late["yanchor"]) == (0, "top"), "below the axis: the legend is above"
    bars = traces(content, "bar")
    assert "straggler" in bars[0]["y"][1]
    assert "straggler" not in bars[0]["y"][0]
    drawn = {bar["name"]: column(bar["x"]).tolist() for bar in bars}
    wanted: dict[str, list[float]] = {}
    warm = range(WARM_UP_STEPS, 16)
    for worker in (0, 1):
        parts = [p3.parts[worker, step] for step in warm[:-1]]  # the last one's iteration has no end yet
        medians = {
            name: np.median([part[name] for part in parts]) for name in ("compute", "exposed", "input")
        }
        whole = np.median(np.diff([p3.starts[worker, step] for step in warm])) / MS
        for label, ms in {
            "computation": medians["compute"],
            "exposed communication": medians["exposed"],
            "waiting for input": medians["input"],
            "idle: evaluation, bookkeeping": whole - sum(medians.values()),
        }.items():
            wanted.setdefault(label, []).append(float(ms))
    assert set(drawn) == set(wanted)
    for label, values in wanted.items():
        assert drawn[label] == pytest.approx(values, abs=1e-5), label
    assert min(map(max, wanted.values())) > 0.5, "each part is there"


def test_equal_workers_have_no_straggler() -> None:
    assert straggler({0: {"compute": 10.0, "input": 0.0}, 1: {"compute": 10.3, "input": 0.0}}) is None


@pytest.mark.parametrize(("exposed", "found"), [(760.0, None), (2.0, 1)])
def test_who_is_late_by_little_of_a_step_is_no_straggler(exposed: float, found: int | None) -> None:
    parts = {
        worker: {"compute": compute, "exposed": exposed, "input": 0.0, "idle": 0.0}
        for worker, compute in enumerate((26.4, 28.0))
    }
    assert straggler(parts) == found


def test_every_definition_is_said_beside_a_figure() -> None:
    said = {term: text for figure in FIGURES.values() for term, text in figure.definitions.items()}
    assert said == DEFINITIONS


def test_the_speed_up_is_the_definitions(database: Database, jobs: dict[str, str], baseline: Run) -> None:
    content = build(database, jobs["whole"], "speed-up")
    with database.read() as session:
        ours, theirs = Source(session, jobs["whole"]), Source(session, baseline.job_id)
        result = compare(ours, theirs).result
    assert result.value is not None
    rates = [float(column(bar["x"])[0]) for bar in traces(content, "bar")]
    assert rates[1] / rates[0] == pytest.approx(result.value)
    assert len(rates) == 2, "with as many workers as the baseline, linear scaling says nothing"
    assert content["layout"]["meta"]["linear"] is None


@pytest.mark.parametrize(("batch", "scaling"), [(64, "strong"), (32, "weak")])
def test_linear_is_the_baselines_rate_times_the_workers(database: Database, batch: int, scaling: str) -> None:
    one = even_steps(database, f"one, {scaling}", samples=batch, step_ms=10, workers=1, batch=batch)
    two = even_steps(database, f"two, {scaling}", samples=32, step_ms=8, workers=2, batch=64, baseline=one)
    content = build(database, two, "speed-up")
    ours, theirs = 64 / 0.008, batch / 0.010
    rates = [float(column(bar["x"])[0]) for bar in traces(content, "bar")]
    assert rates == pytest.approx([theirs, ours, 2 * theirs])
    meta = content["layout"]["meta"]
    assert meta["scaling"] == scaling
    assert (meta["speed_up"], meta["linear"]) == pytest.approx((ours / theirs, 2.0))


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_of_steps_do_not_lie_over_one_another(database: Database, baseline: Run, width: int) -> None:
    content = build(database, baseline.job_id, "timeline", from_ns=0, to_ns=10_000 * MS, width=width)
    numbers = [note for note in content["layout"]["annotations"] if note["text"].startswith("step ")]
    at_px = [note["x"] / 10 * (width - LABEL_PX) for note in numbers]
    assert at_px, "some step has a number"
    assert (np.diff(at_px) > 7 * len("step 15")).all()


def test_what_figures_say_fits_on_a_phone(database: Database, jobs: dict[str, str]) -> None:
    def longest(texts: list[str]) -> int:
        return max(len(re.sub("<[^>]*>", "", line)) for text in texts for line in text.split("<br>"))

    for name in ("step-time", "speed-up"):
        content = build(database, jobs["whole"], name, width=WIDTHS[0])
        names = [text for bar in traces(content, "bar") for text in bar["y"]]
        said = [note["text"] for note in content["layout"]["annotations"]]
        assert 6 * longest(said) + 7 * longest(names) < WIDTHS[0], name
    assert longest([bar["text"][0] for bar in traces(content, "bar")]) <= len("12.34x")


def test_figures_of_a_rehearsal_say_so(database: Database, jobs: dict[str, str]) -> None:
    label = "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15"
    rehearsed = record_run(database, "rehearsed", steps=2, started=20_000, fidelity="rehearse").job_id
    for name in FIGURES:
        content = build(database, rehearsed, name)
        meta = content["layout"]["meta"]
        assert meta["rehearsed"] == label
        assert label in notes(content)  # an exported picture carries it along
        assert label in notes(build(database, rehearsed, name, width=360))
        assert label in meta["alt"]
        assert "rehearsed" not in build(database, jobs["whole"], name)["layout"]["meta"]


def test_an_unequal_comparison_is_refused_with_its_reason(database: Database, baseline: Run) -> None:
    other = record_run(
        database,
        "other",
        model="alexnet",
        steps=8,
        started=9000,
        baseline=baseline.job_id,
        link_samples=False,
    )
    content = build(database, other.job_id, "speed-up")
    assert content["data"] == []
    assert "Not comparable with parameter-server" in notes(content)
    assert "alexnet" in notes(content)


def test_a_comparison_that_lacks_steps_is_not_called_refused(database: Database, baseline: Run) -> None:
    job_id, _ = add_job(database, "too short", started=9500, baseline=baseline.job_id)
    text = notes(build(database, job_id, "speed-up"))
    assert "No speed-up over parameter-server" in text
    assert "it ended before its warm-up was over" in text


# How a colour looks without long- or medium-wavelength cones, in linear RGB (Viénot, Brettel, Mollon 1999).
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deuteranopia": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}


def lab(colour: str, seen_with: np.ndarray) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.clip(seen_with @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(np.maximum(xyz / np.array([0.9505, 1.0, 1.089]), 1e-9))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_waiting_stands_out_from_every_layer_for_every_eye(theme: Any, deficiency: str) -> None:
    seen = DEFICIENCIES[deficiency]
    red = lab(COLOURS[theme].wait, seen)
    for colour in [*palette(theme, 16), COLOURS[theme].other]:
        assert np.linalg.norm(lab(colour, seen) - red) > 15, colour


def add_steps(database: Database, attempt: int, starts_ns: list[int], *, workers: int, samples: int) -> None:
    """Rows of steps that start then, in every worker, each as long as the first."""

    def write(session: Session) -> None:
        for party, (step, start_ns) in itertools.product(range(workers), enumerate(starts_ns)):
            end_ns = start_ns + starts_ns[1] - starts_ns[0]
            row = StepRow(attempt_id=attempt, step=step, party=party, start_ns=start_ns, end_ns=end_ns)
            row.samples, row.loss = samples, 1.0
            row.exposed_ns = row.compute_ns = row.input_ns = 0
            session.add(row)

    database.writer.run(write)


def even_steps(
    database: Database, name: str, *, samples: int, step_ms: int, workers: int, **changes: object
) -> str:
    """A job of 20 steps that all take as long."""
    job_id, attempt = add_job(database, name, workers=workers, started=30_000, **changes)
    starts = [step * step_ms * MS for step in range(20)]
    add_steps(database, attempt, starts, workers=workers, samples=samples)
    return job_id


def test_a_long_job_has_one_speed_in_figures_and_in_lists(database: Database) -> None:
    job_id, attempt = add_job(database, "slower later")
    steps = range(2 * WINDOW_STEPS + 10)
    starts = [(step + max(0, step - WINDOW_STEPS)) * 10 * MS for step in steps]
    add_steps(database, attempt, starts, workers=2, samples=32)
    with database.read() as session:
        drawn = measure(Source(session, job_id))
        listed = progress.read(session, attempt, workers=2, period=1)
    assert drawn.samples_per_s == listed.samples_per_s == pytest.approx(64 / 0.02)
