"""The Python client, as a notebook or another program uses it, with a real server."""

from __future__ import annotations

import io
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import plotly.graph_objects as go
import pytest
from sqlalchemy.orm import Session

from backend import connection
from backend.cli.top import SHOWN, look
from backend.client import ApiError, Client, ServerUnreachableError
from backend.db import Database, models
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.databases import opened_by


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[Client]:
    with Client(live.url) as client:
        yield client


@pytest.fixture(scope="module")
def ids(client: Client) -> list[str]:
    """Two jobs that wait."""
    return [client.submit(from_plain(JobSpec, job_spec(f"notebook {i}"))).id for i in range(2)]


def move(session: Session, states: dict[str, str]) -> None:
    for job_id, state in states.items():
        job = session.get_one(models.Job, job_id)
        job.state, job.revision = state, job.revision + 1


@pytest.mark.usefixtures("server_lane")
def test_what_runs_is_seen_above_a_long_queue(tmp_path: Path) -> None:
    with LiveServer(tmp_path, scheduler=False, warm_jobs=True) as server, Client(server.url) as client:
        runs, ends = client.submit(job_spec("runs")), client.submit(job_spec("ends"))
        database = Database(opened_by(tmp_path))
        database.writer.run(
            lambda session: move(session, {runs.id: "running", ends.id: "stopping_cancelled"})
        )
        database.close()
        for number in range(SHOWN + 1):
            client.submit(job_spec(f"waits {number}"))
        rows = [
            line.split() for line in look(client).splitlines() if {"waits", "runs", "ends"} & {*line.split()}
        ]
    assert runs.id.startswith(rows[0][0])
    assert "cancelling" in rows[1], "states are words"
    assert len([row for row in rows if "queued" in row]) == SHOWN - 2


@pytest.mark.usefixtures("server_lane")
def test_who_waits_for_a_job_waits_for_a_server_that_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """`wait`, `follow` and `top` go on with the next server, on the same port."""
    monkeypatch.setattr(connection, "AGAIN_S", 0.05)
    heard: list[str] = []
    with LiveServer(tmp_path, port=port, scheduler=False, warm_jobs=True) as server:
        url = server.url
        client = Client(url, on_away=heard.append)
        job_id = client.submit(job_spec("outlives the server")).id
    done: dict[str, str] = {}
    waits = [
        threading.Thread(target=lambda: done.update(wait=client.wait(job_id).state), daemon=True),
        threading.Thread(target=lambda: done.update(follow="".join(client.follow(job_id))), daemon=True),
        threading.Thread(target=lambda: done.update(top=client.patiently(lambda: look(client))), daemon=True),
    ]
    for thread in waits:
        thread.start()
    until(lambda: len(heard) == len(waits), "each says that it waits")
    with LiveServer(tmp_path, port=port, scheduler=False), Client(url) as other:
        other.cancel(job_id)
        for thread in waits:
            thread.join(120)
        assert (done["wait"], done["follow"]) == ("cancelled", "")
        assert url in done["top"]
    assert f"no answer from {url}: waiting 60 s for the server" in heard
    monkeypatch.setattr(connection, "PATIENCE_S", 0.2)
    with pytest.raises(ServerUnreachableError):
        client.wait(job_id)
    client.close()
    with Client(url, on_away=heard.append) as stranger, pytest.raises(ServerUnreachableError):
        stranger.wait(job_id)  # at once: it may be a mistyped address
    assert len(heard) == len(waits) + 1


def test_jobs_come_page_by_page(client: Client, ids: list[str]) -> None:
    assert [job.id for job in client.jobs(text="notebook")] == ids[::-1]
    assert [job.id for job in client.jobs(text="notebook", limit=1)] == ids[-1:]
    assert list(client.jobs(text="notebook", rehearsed=True)) == []
    assert [row.to_state for row in client.history(ids[0]).items] == ["queued"]
    assert client.attempts(ids[0]).items == []


def test_what_is_stopped_has_ended_also_when_it_had_before(client: Client) -> None:
    job = client.submit(job_spec("is stopped"))
    for _ in range(2):
        assert client.stop(job.id, timeout_s=120).state == "cancelled"
    with pytest.raises(ApiError, match="no such job"):
        client.stop("nobody", timeout_s=60)


def test_figures_open_in_a_notebook(client: Client, ids: list[str]) -> None:
    for figure in (client.figure(ids[0], "timeline", width=800), client.same_step_figure(ids, theme="dark")):
        assert isinstance(figure, go.Figure)
        assert figure.layout.annotations[0].text  # it says that there is nothing yet


def test_what_was_recorded_is_read_as_objects(client: Client, ids: list[str]) -> None:
    assert client.metrics(ids[0]).series == {}
    assert client.metric_names(ids[0]).items == []
    assert client.events(ids[0], kind="wait", limit=10).next_cursor is None
    assert client.summary(ids[0], baseline=ids[1]).speed_up is not None
    written = io.BytesIO()
    client.trace(ids[0], written, step_from=0, step_to=3)
    assert json.loads(written.getvalue())["otherData"]["job"] == ids[0]


def test_refusals_are_errors_that_name_the_field(client: Client) -> None:
    with pytest.raises(ApiError, match="no such state") as refused:
        list(client.jobs(state="gone"))
    assert (refused.value.status, refused.value.problem.errors[0].field) == (422, "state")
    with pytest.raises(ApiError, match="no such job") as refused:
        client.trace("nobody", io.BytesIO())
    assert refused.value.status == 404
    with (
        pytest.raises(ServerUnreachableError, match="trainyard serve"),
        Client("http://127.0.0.1:1") as nobody,
    ):
        nobody.health()


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("https://cluster.example:8000", True),
        ("HTTPS://cluster.example", True),
        ("http://127.0.0.1:8000", False),
    ],
)
def test_certificates_are_checked_wherever_there_is_one(url: str, checked: bool) -> None:
    with Client(url) as client:
        context = client._http._transport._pool._ssl_context  # type: ignore[attr-defined]
        assert (context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname) is checked


def test_an_address_may_be_given_as_help_prints_it() -> None:
    with Client("127.0.0.1:8000") as client:
        assert client.url == "http://127.0.0.1:8000"
