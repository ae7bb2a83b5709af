"""Rehearsals in the service: they take CPU slots and race only with their like; profiles come from the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from backend.cli import profiles
from backend.cli.main import app
from backend.client import Client
from backend.db import Database
from backend.db.models import Job
from backend.figures.compared import compare
from backend.figures.facts import JobFacts
from backend.figures.race import race
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.scheduler import snapshot
from backend.scheduler.decide import Demand
from backend.scheduler.place import Place
from engine.plan.documents import load_file
from engine.profile import Profile
from tests.backend import warm
from tests.backend.job_specs import job_spec, submit
from tests.backend.live_server import LiveServer
from tests.backend.posted_run import end_attempt, record_steps, start_attempt
from tests.backend.recorded_run import add_job, record_run
from tests.backend.test_api_notices import Feed

LABEL = "rehearsed: compute of P4000 derived from FLOPs at 60 %, sizes and rates 1/15"


@pytest.fixture(scope="module")
def rehearsed(database: Database) -> str:
    return record_run(database, "p3", priority=True, slices=4, steps=16, fidelity="rehearse").job_id


@pytest.fixture(scope="module")
def trained(database: Database) -> str:
    return record_run(database, "parameter-server", steps=16, started=1000).job_id


def facts(session: Session, job_id: str) -> JobFacts:
    return Source(session, job_id).job


def test_a_rehearsal_is_compared_with_its_like_only(database: Database, rehearsed: str, trained: str) -> None:
    other = record_run(database, "fifo", steps=16, started=2000, fidelity="rehearse").job_id
    coarser = record_run(
        database, "coarser", steps=16, started=3000, fidelity="rehearse", rehearsal={"scale": 30.0}
    ).job_id
    with database.read() as session:
        mine, theirs, like, unlike = (Source(session, id_) for id_ in (rehearsed, trained, other, coarser))
        assert compare(mine, like).result.value is not None
        for wrong in (theirs, unlike):
            refused = compare(mine, wrong).result
            assert refused.value is None
            assert any(reason.startswith(f"device: {LABEL} here") for reason in refused.refused)
            text = race(session, [rehearsed, wrong.job.id], FigureRequest()).headline
            assert text.startswith(f"Not comparable. device: {LABEL} in p3")


def test_a_waiting_rehearsal_asks_for_a_slot_of_its_own_kind(database: Database, tmp_path: Path) -> None:
    job_id = add_job(database, "waiting", fidelity="rehearse")[0]
    with database.read() as session:
        row = facts(session, job_id)
        assert row.rehearsed == row.device == LABEL

    def wait(session: Session) -> None:
        job = session.get_one(Job, job_id)
        job.spec = {**job.spec, "cluster": {"workers": 2, "device": "auto"}}
        job.state = "queued"

    database.writer.run(wait)
    with database.read() as session:
        found = snapshot.Queue().read(session, Place.of(tmp_path, shared=False), 0)
        waiting = {queued.job.id: queued.job for queued in found}
        assert waiting[job_id].demand == Demand(workers=2, rehearsal=True)


@pytest.mark.parametrize(("fidelity", "label"), [("rehearse", LABEL), ("train", None)])
def test_every_answer_with_figures_says_what_they_rest_on(
    api: TestClient, tmp_path: Path, fidelity: str, label: str | None
) -> None:
    """Before anything was measured and afterwards, whatever part of it is asked for."""
    changes = {"rehearsal": {"scale": 15}} if label else {}
    job_id = submit(api, fidelity, fidelity=fidelity, **changes)["id"]
    asked = ("summary", "metrics", "metrics?name=loss", "events", "events?fields=start_ns,end_ns&kind=send")

    def labels() -> list[str | None]:
        return [api.get(f"/api/v1/jobs/{job_id}/{path}").json()["rehearsed"] for path in asked]

    assert labels() == [label] * len(asked)
    posted = start_attempt(api, job_id, tmp_path)
    record_steps(posted)
    posted.post_all(api)
    end_attempt(api, posted)
    assert labels() == [label] * len(asked)


def test_speeds_are_told_to_programs_with_their_label(live: LiveServer) -> None:
    with Client(live.url) as client, Feed(live) as feed:
        feed.until("ready")
        rehearsal = client.submit(job_spec("rehearsed", fidelity="rehearse", rehearsal={"scale": 15}))
        assert feed.until("job", rehearsal.id)[-1]["data"]["rehearsed"] == LABEL
        assert client.metrics(rehearsal.id).rehearsed == client.events(rehearsal.id).rehearsed == LABEL
        trained = client.submit(job_spec("trained"))
        assert feed.until("job", trained.id)[-1]["data"]["rehearsed"] is None


@pytest.fixture
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that measures is forked from one that has loaded PyTorch; `test_docs.py` runs it as a person does."""
    monkeypatch.setattr(profiles, "subprocess", warm.PROGRAMS)


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize("device", ["cpu", "k40m"])
def test_profiles_are_measured_or_derived_in_the_terminal(device: str, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    command = ["profile", "--model", "cnn", "--data", "digits", "--batch", "8", "--steps", "3"]
    found = CliRunner().invoke(app, [*command, "--device", device, "--out", str(out)])
    assert found.exit_code == 0, found.output
    profile = load_file(Profile, out)
    assert (profile.source, profile.batch) == ("measured" if device == "cpu" else "derived", 8)
    assert [time.layer for time in profile.layers] == ["0", "2", "6"]
    assert all(time.forward_s > 0 and time.backward_s > 0 for time in profile.layers)
    assert "measured on cpu" in found.stdout or "derived from FLOPs for K40m at 60 %" in found.stdout
    assert "10,858" in found.stdout


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "k40"], "Did you mean 'k40m'?"),
        (["--model", "cnnn"], "Did you mean 'cnn'?"),
        (["--batch", "100000"], "Use a smaller batch"),
        (["--option", "classes"], "must read name=value"),
    ],
)
def test_profiles_are_refused_as_everything_is(arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(app, ["profile", "--model", "cnn", "--data", "digits", *arguments])
    assert found.exit_code == 2
    assert message in found.output
