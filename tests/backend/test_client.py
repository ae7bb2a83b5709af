"""The Python client, as a notebook or another program uses it, with a real server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import plotly.graph_objects as go
import pytest

from backend.client import ApiError, Client, ServerUnreachableError
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[Client]:
    with Client(live.url) as client:
        yield client


@pytest.fixture(scope="module")
def ids(client: Client) -> list[str]:
    """Two jobs that wait."""
    return [client.submit(from_plain(JobSpec, job_spec(f"notebook {i}"))).id for i in range(2)]


def test_jobs_come_page_by_page(client: Client, ids: list[str]) -> None:
    assert [job.id for job in client.jobs(text="notebook")] == ids[::-1]
    assert [job.id for job in client.jobs(text="notebook", limit=1)] == ids[-1:]
    assert list(client.jobs(text="notebook", rehearsed=True)) == []
    assert [row.to_state for row in client.history(ids[0]).items] == ["queued"]
    assert client.attempts(ids[0]).items == []


def test_figures_open_in_a_notebook(client: Client, ids: list[str]) -> None:
    for figure in (client.figure(ids[0], "timeline", width=800), client.race_figure(ids, theme="dark")):
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
