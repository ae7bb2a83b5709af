"""Jobs whose workers are slowed on purpose say so wherever they are shown, and compare only with their like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from backend.called import called
from backend.cli.races import report
from backend.db import Database
from backend.db.models import Job
from backend.figures.compare import compare as compare_figure
from backend.figures.compared import compare
from backend.figures.race import race
from backend.figures.registry import FIGURES, figure
from backend.figures.request import FigureRequest
from backend.figures.source import Source
from backend.races.spec import RaceSpec
from backend.schemas.races import RaceView
from engine.errors import UserError
from engine.plan.serde import from_plain
from tests.backend.figures_drawn import answer, notes
from tests.backend.job_specs import job_spec, submit
from tests.backend.live_server import LiveServer
from tests.backend.recorded_run import record_run
from tests.backend.test_api_trace import export
from tests.backend.test_cli_jobs import succeeds

FAULTS = {"stragglers": [{"worker": 1, "factor": 2.0}]}
LABEL = "worker 1 slowed: computes 2x as long"


@pytest.fixture(scope="module")
def slowed(database: Database) -> str:
    return record_run(database, "p3", priority=True, steps=16, slow=2.0, faults=FAULTS).job_id


@pytest.fixture(scope="module")
def plain(database: Database) -> str:
    return record_run(database, "parameter-server", steps=16, started=1000).job_id


def test_it_is_compared_with_its_like_only(database: Database, slowed: str, plain: str) -> None:
    like = record_run(database, "fifo", steps=16, started=2000, slow=2.0, faults=FAULTS).job_id
    worse = {"stragglers": [{"worker": 1, "factor": 4.0}]}
    unlike = record_run(database, "worse", steps=16, started=3000, slow=4.0, faults=worse).job_id
    with database.read() as session:
        mine, theirs, other, wrong = (Source(session, each) for each in (slowed, like, plain, unlike))
        assert compare(mine, theirs).result.value is not None
        for source in (other, wrong):
            (reason,) = compare(mine, source).result.refused
            assert reason.startswith(f"injected faults: {LABEL} here")
        headline = race(session, [slowed, plain], FigureRequest()).headline
    assert headline.startswith(
        f"Not comparable. injected faults: {LABEL} in p3 (slowed), none in parameter-server"
    )


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_it(database: Database, slowed: str, plain: str, name: str) -> None:
    with database.read() as session:
        mine = answer(figure(name).draw(Source(session, slowed), FigureRequest(width=360)))
        theirs = answer(figure(name).draw(Source(session, plain), FigureRequest()))
    assert mine["layout"]["meta"]["slowed"] == LABEL
    assert LABEL in mine["layout"]["meta"]["alt"]
    assert LABEL in notes(mine)
    assert "slowed" not in theirs["layout"]["meta"]


def test_figures_of_several_jobs_name_whose_workers_are(database: Database, slowed: str, plain: str) -> None:
    both = record_run(database, "both", steps=16, started=4000, faults=FAULTS, fidelity="rehearse").job_id
    with database.read() as session:
        for ids in ([slowed, plain], [slowed, plain, both]):
            drawn = race(session, ids, FigureRequest())
            curves = answer(compare_figure(session, ids, "loss", "step", FigureRequest()))
            for content in (answer(drawn.figure), curves):
                said = content["layout"]["meta"]["slowed"]
                assert said.startswith(f"p3, {LABEL}")
                assert ("both, " + LABEL in said) == (both in ids)
                assert ("rehearsed" in content["layout"]["meta"]) == (both in ids)
        assert "p3 (slowed)" in notes(answer(race(session, [slowed, plain], FigureRequest()).figure))


def test_what_another_version_stored_is_said_not_hidden(database: Database) -> None:
    job_id = record_run(database, "other", steps=2, started=5000, faults=FAULTS).job_id

    def change(session: Any) -> None:
        job = session.get_one(Job, job_id)
        job.spec = {**job.spec, "faults": {"stragglers": [{"worker": 1, "crawls": True}]}}

    database.writer.run(change)
    with database.read() as session:
        assert Source(session, job_id).job.slowed == "slowed: in a way that this version cannot read"


PATHS = ("summary", "metrics", "speed-ups", "links", "events", "staleness")


def test_every_answer_with_figures_says_it(api: TestClient) -> None:
    job = submit(api, "slowed", faults=FAULTS)
    assert job["slowed"] == LABEL
    assert [each["slowed"] for each in api.get("/api/v1/jobs?text=slowed").json()["items"]] == [LABEL]
    for path in (*PATHS, "events?fields=start_ns&kind=send"):
        assert api.get(f"/api/v1/jobs/{job['id']}/{path}").json()["slowed"] == LABEL, path
    assert export(api, job["id"])["otherData"]["slowed"] == LABEL
    assert submit(api, "as it is")["slowed"] is None


def test_a_wrong_worker_is_refused_with_its_field(api: TestClient) -> None:
    body = job_spec("wrong", faults={"stragglers": [{"worker": 7, "factor": 2}]})
    refused = api.post("/api/v1/jobs", json=body)
    assert refused.status_code == 422
    assert "faults.stragglers.0.worker" in refused.text


def test_the_terminal_says_it(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", live.url)
    ids = []
    for name, changes in (("quick", {}), ("slow", {"faults": FAULTS})):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job_spec(name, **changes)))
        ids.append(succeeds("submit", str(path)).strip())
    assert LABEL in succeeds("plan", str(tmp_path / "slow.yaml"))
    assert "mlp (slowed)" in succeeds("list", "--text", "slow")
    assert LABEL in succeeds("show", ids[1])
    assert LABEL in succeeds("staleness", ids[1])
    assert LABEL in succeeds("compare", *ids)
    assert "slowed" not in succeeds("compare", ids[0], ids[0])


def test_names_say_all_that_must_be_known(database: Database, slowed: str) -> None:
    with database.read() as session:
        assert called("vgg", Source(session, slowed).job) == "vgg (slowed)"


def test_a_race_says_it_and_has_the_worker_everywhere(api: TestClient) -> None:
    spec = {"job": job_spec("race", faults=FAULTS), "members": [{"strategy": "p3"}, {"strategy": "ddp"}]}
    made = api.post("/api/v1/races", json=spec)
    assert made.status_code == 201, made.text
    view = RaceView.model_validate(api.get(f"/api/v1/races/{made.json()['id']}").json())
    assert view.slowed == LABEL
    assert f"({LABEL})" in report(view)
    assert LABEL in api.get(f"/api/v1/races/{view.id}/report").text
    with pytest.raises(UserError, match=r"workers\.0 = 1: the job slows worker 1.*Race more workers"):
        from_plain(RaceSpec, {**spec, "workers": [1, 2]})
