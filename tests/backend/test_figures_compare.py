"""Comparisons draw what was recorded, over steps, samples, bytes and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete

from backend.db import Database
from backend.db.models import Metric, StepRow
from backend.figures.compare import Curve, compare, draw
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.figures.speed import measure
from engine.telemetry.absence import lost
from engine.telemetry.events import Kind
from tests.backend.figures_drawn import answer, column, notes, traces
from tests.backend.recorded_run import Run, add_job, record_run


@pytest.fixture(scope="module")
def runs(database: Database) -> list[Run]:
    return [
        record_run(database, "parameter-server", link_samples=False),
        record_run(database, "p3", priority=True, slices=4, link_samples=False),
    ]


def drawn(database: Database, ids: list[str], what: Any, by: Any) -> dict[str, Any]:
    with database.read() as session:
        return answer(compare(session, ids, what, by, FigureRequest()))


def test_curves_are_the_jobs_own_by_step_samples_and_time(database: Database, runs: list[Run]) -> None:
    ids = [run.job_id for run in runs]
    curves = {by: traces(drawn(database, ids, "loss", by), "scatter") for by in ("step", "samples", "time")}
    for index, run in enumerate(runs):
        with database.read() as session:
            rows = Source(session, run.job_id).step_rows()
        ends = np.array([rows["end"][rows["step"] == step].max() for step in range(12)])
        losses = [rows["loss"][rows["step"] == step].mean() for step in range(12)]
        own = {by: of[index] for by, of in curves.items()}
        assert [trace["name"] for trace in own.values()] == [("parameter-server", "p3")[index]] * 3
        assert column(own["step"]["y"]).tolist() == pytest.approx(losses)
        assert column(own["step"]["x"]).tolist() == list(range(12))
        assert column(own["samples"]["x"]).tolist() == [64 * (step + 1) for step in range(12)]
        assert column(own["time"]["x"]).tolist() == pytest.approx((ends - rows["start"].min()) / 1e9)


def test_bytes_are_those_sent_until_then(database: Database, runs: list[Run]) -> None:
    (trace,) = traces(drawn(database, [runs[0].job_id], "loss", "bytes"), "scatter")
    with database.read() as session:
        rows = Source(session, runs[0].job_id).step_rows()
    end = int(rows["end"][rows["step"] == 5].max())
    sends = [e for e in runs[0].events if e["kind"] == Kind.SEND]
    sent = sum(e["bytes"] * min(max((end - e["start"]) / (e["end"] - e["start"]), 0), 1) for e in sends)
    assert column(trace["x"])[5] == pytest.approx(sent, rel=0.02)  # within a bin
    assert (np.diff(column(trace["x"])) > 0).all()


def test_accuracy_and_throughput_and_who_has_none(database: Database, runs: list[Run]) -> None:
    waiting = add_job(database, "waiting")[0]
    ids = [*(run.job_id for run in runs), waiting]
    content = drawn(database, ids, "accuracy", "step")
    assert [column(trace["x"]).tolist() for trace in traces(content, "scatter")] == [[4, 9], [4, 9]]
    assert content["layout"]["meta"]["left_out"] == ["waiting"]
    assert "waiting" in notes(content)
    assert len(traces(drawn(database, ids, "throughput", "time"), "scatter")) == 2
    empty = drawn(database, [waiting], "loss", "bytes")
    assert empty["layout"]["meta"]["empty"]


def test_a_comparison_of_rehearsals_says_so(database: Database, runs: list[Run]) -> None:
    label = "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15"
    rehearsed = record_run(database, "rehearsed", fidelity="rehearse", link_samples=False).job_id
    content = drawn(database, [rehearsed], "loss", "step")
    assert label in notes(content)  # an exported picture carries it along
    assert content["layout"]["meta"]["rehearsed"] == label
    beside = drawn(database, [runs[0].job_id, rehearsed], "loss", "step")
    assert beside["layout"]["meta"]["rehearsed"] == f"rehearsed, {label}"
    assert "rehearsed" not in drawn(database, [runs[0].job_id], "loss", "step")["layout"]["meta"]


def test_curves_that_hide_one_another_are_named() -> None:
    """Those that a person could tell apart are not: a curve that is higher, one that goes on, one that took longer."""
    steps = np.arange(50.0)
    loss = 2.0 / (1.0 + steps)

    def named(name: str, x: np.ndarray, value: np.ndarray) -> Curve:
        return Curve(name=name, step=x, end_ns=x, value=value, x=x)

    equal = [
        named(name, steps, loss * (1 + 1e-6 * place)) for place, name in enumerate(("ps", "<p3>", "ring"))
    ]
    others = [
        named("higher", steps, loss + 0.1),
        named("goes on", np.arange(60.0), 2.0 / (1.0 + np.arange(60.0))),
        named("took longer", 1.5 * steps, loss),
        named("nothing yet", steps[:0], loss[:0]),
    ]

    def notes_of(curves: list[Curve], what: Any = "loss") -> list[str]:
        figure = draw(curves, what, "step", FigureRequest(), revision="r")
        return [one.text for one in figure.layout.annotations if "coincide" in one.text]

    said = ["ps, &lt;p3&gt; and ring coincide: one line hides the others"]
    assert notes_of([equal[0], *others[:2], *equal[1:], *others[2:]]) == said
    assert notes_of([equal[0], *others]) == notes_of(equal[:1]) == []
    # What is drawn decides: losses that are smoothed, and rates on an axis that ends long before the highest of them.
    far = np.arange(2000.0)
    noise = np.where(far % 2 == 0, 0.05, -0.05) * (abs(far - 1000) < 800)  # ends have few to average
    noisy = [named("up", far, 1 + noise), named("down", far, 1 - noise)]
    assert notes_of(noisy) == ["up and down coincide: one line hides the other"]
    rates = [
        named(name, far, np.where(far == 0, 1e6, rate)) for name, rate in (("slow", 100.0), ("fast", 200.0))
    ]
    assert notes_of(rates, "throughput") == []


def test_curves_are_smoothed_as_it_is_asked_for_and_the_axis_says_so() -> None:
    noisy = np.where(np.arange(100) % 2 == 0, 1.0, 3.0)
    one = Curve(name="p3", step=np.arange(100.0), end_ns=np.arange(100), value=noisy, x=np.arange(100.0))

    def shown(what: Any, smoothing: int | None) -> tuple[np.ndarray, str]:
        figure = draw([one], what, "step", FigureRequest(), revision="r", smoothing=smoothing)
        return np.asarray(figure.data[0].y), figure.layout.yaxis.title.text

    for what, smoothing in (("loss", 0), ("throughput", None), ("accuracy", 0)):
        values, title = shown(what, smoothing)
        assert (values == noisy).all()
        assert "smoothed" not in title
    for what, smoothing, percent in (("loss", None, 8), ("throughput", 20, 20), ("loss", 50, 50)):
        values, title = shown(what, smoothing)
        half = max(1, round(100 * percent / 200))
        middle = noisy[50 - half : 51 + half].mean()
        assert values[50] == pytest.approx(middle)
        assert title.endswith(f"(smoothed over {percent} %)")
    few = Curve(name="p3", step=one.step[:9], end_ns=one.end_ns[:9], value=noisy[:9], x=one.x[:9])
    figure = draw([one, few], "loss", "step", FigureRequest(), revision="r")
    said = figure.layout.yaxis.title.text
    assert said == "training loss (smoothed over 8 % where there are 60 points or more)", (
        "one of the two is not"
    )
    figure = draw([few], "loss", "step", FigureRequest(), revision="r")
    assert (np.asarray(figure.data[0].y) == noisy[:9]).all(), "few points are shown as they are"


def test_samples_are_those_of_the_steps_that_workers_made(database: Database) -> None:
    """A worker that was lost after step 4 has none of the later ones, and a job is as fast as those that are there."""
    run = record_run(database, "parameter-server", link_samples=False)
    with database.read() as session:
        source = Source(session, run.job_id)
        rows, attempt = source.step_rows(), source.attempt
        whole = measure(source).samples_per_s
    last = int(rows["party"].max())
    at = int(rows["end"][(rows["party"] == last) & (rows["step"] == 4)][0])
    made = [
        int(rows["samples"][(rows["step"] <= s) & ((rows["party"] != last) | (rows["step"] <= 4))].sum())
        for s in range(12)
    ]

    def lose(session: Any) -> None:
        gone = StepRow.attempt_id == attempt, StepRow.party == last, StepRow.step > 4
        session.execute(delete(StepRow).where(*gone))
        session.add(Metric(attempt_id=attempt, name=lost(last), step=0, at_ns=at, value=5.0))

    database.writer.run(lose)
    (trace,) = traces(drawn(database, [run.job_id], "loss", "samples"), "scatter")
    assert column(trace["x"]).tolist() == made
    (trace,) = traces(drawn(database, [run.job_id], "accuracy", "samples"), "scatter")
    assert column(trace["x"]).tolist() == [made[3], made[8]]  # after 4 steps, and after 9
    with database.read() as session:
        left = measure(Source(session, run.job_id)).samples_per_s
    assert whole is not None
    assert left is not None
    assert left < whole
