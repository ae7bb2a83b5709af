"""What every route owes, found by walking the OpenAPI document: no route can forget it."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient

from backend.api.guard import BATCH
from backend.app import create_app, openapi
from backend.settings import Settings
from tests.backend.api_document import DOCUMENT
from tests.backend.live_server import LiveServer
from tests.databases import url_of

WRITES = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if method not in {"get", "head", "options"}
]


def filled(path: str) -> str:
    """The path with something for each of its parameters."""
    return path.replace("{job_id}", "1").replace("{attempt}", "1").replace("{name}", "loss")


def test_there_are_writes_to_walk() -> None:
    assert len(WRITES) >= 4


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_every_write_refuses_what_a_browser_sends_across_origins(
    api: TestClient, method: str, path: str, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = api.request(method, filled(path), content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.headers["content-type"] == "application/problem+json"
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/jobs", "/api/v1/health", "/api/v1/jobs/1", "/api/v1/nothing"])
def test_no_answer_may_be_framed_or_guessed_at(api: TestClient, path: str) -> None:
    answer = api.get(path)
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*DOCUMENT["paths"], "/", "/jobs"])
def test_unknown_hosts_are_refused(api: TestClient, path: str) -> None:
    answer = api.get(filled(path), headers={"Host": "rebound.example:8000"})
    assert answer.status_code == 421
    assert "127.0.0.1" in answer.json()["detail"]


def test_a_long_host_is_cut_where_it_is_repeated(api: TestClient) -> None:
    answer = api.get("/jobs", headers={"Host": "a" * 60_000})
    assert answer.status_code == 421
    assert len(answer.content) < 2_000


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST"])
def test_loopback_is_known(api: TestClient, host: str) -> None:
    assert api.get("/api/v1/health", headers={"Host": host}).status_code == 200


def test_further_hosts_are_a_setting(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path,
        database_url=url_of(tmp_path),
        cpu_devices=2,
        scheduler=False,
        allowed_hosts=("lab.example",),
    )
    with TestClient(create_app(settings), base_url="http://lab.example") as client:
        assert client.get("/api/v1/health").status_code == 200


def test_nothing_is_offered_across_origins(api: TestClient) -> None:
    for method in ("get", "options"):
        answer = api.request(method, "/api/v1/jobs", headers={"Origin": "http://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_operation_has_a_name_a_tag_and_documented_errors() -> None:
    ids = set()
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            assert operation["tags"]
            assert operation["description"]
            verb, _, thing = operation["operationId"].partition(
                "_"
            )  # the method's name in a generated client
            assert verb.isidentifier()
            assert thing.isidentifier()
            ids.add(operation["operationId"])
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]
    assert len(ids) == sum(len(operations) for operations in DOCUMENT["paths"].values())


def test_the_pages_client_is_generated_from_this_document() -> None:
    """Where this fails: trainyard openapi > frontend/openapi.json"""
    made = openapi()
    assert DOCUMENT | {"info": DOCUMENT["info"] | {"version": made["info"]["version"]}} == made


@pytest.mark.parametrize("content_type", [BATCH, "application/json"])
def test_a_strangers_batch_is_refused_before_its_body_is_read(live: LiveServer, content_type: str) -> None:
    connection = HTTPConnection(urlsplit(live.url).netloc, timeout=60)
    connection.putrequest("POST", "/api/v1/attempts/1/batches")
    for name, value in (
        ("Authorization", "Bearer a guess"),
        ("Content-Type", content_type),
        ("Content-Length", "1000000"),
    ):
        connection.putheader(name, value)
    connection.endheaders()  # and no body: a server that reads it first waits for ever
    assert connection.getresponse().status == 401
    connection.close()
