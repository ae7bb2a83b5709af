"""A server with a token: every route of the document asks for it, and what answers without is named here."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.backend.api_document import DOCUMENT
from tests.backend.guarded import TOKEN, WITH_TOKEN, application, browser, refused, sign_in
from tests.backend.ingest_server import TOKEN as ATTEMPTS_TOKEN
from tests.backend.ingest_server import add_attempt
from tests.backend.job_specs import JSON

OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
BY_THE_TOKEN = [{"token": []}, {"session": []}]
CLOSED = [
    (method, path) for method, path, operation in OPERATIONS if operation.get("security") == BY_THE_TOKEN
]
OPEN_TO_ALL = {
    ("get", "/api/v1/health"),
    ("get", "/api/v1/session"),
    ("post", "/api/v1/session"),
    ("delete", "/api/v1/session"),
}
BY_THE_ATTEMPTS_TOKEN = {
    ("post", "/api/v1/attempts/{attempt}/batches"),
    ("post", "/api/v1/attempts/{attempt}/seal"),
}


def filled(path: str) -> str:
    """The path with something for each of its parameters."""
    for name, value in {"attempt": "1", "name": "loss", "token_id": "1"}.items():
        path = path.replace(f"{{{name}}}", value)
    return re.sub(r"\{\w+\}", "nobody", path)


# --- without a credential ---


def test_what_answers_everybody_is_named_here() -> None:
    found = {(method, path) for method, path, operation in OPERATIONS if "security" not in operation}
    assert found == OPEN_TO_ALL
    by_attempt = {(m, p) for m, p, o in OPERATIONS if o.get("security") == [{"attempt": []}]}
    assert by_attempt == BY_THE_ATTEMPTS_TOKEN
    assert all(path.startswith("/api/v1/") for _, path, _ in OPERATIONS), "the gate tells the page's by that"
    assert len(CLOSED) == len(OPERATIONS) - len(OPEN_TO_ALL) - len(BY_THE_ATTEMPTS_TOKEN)


@pytest.mark.parametrize(("method", "path"), sorted(CLOSED))
def test_every_route_refuses_who_shows_nothing(stranger: TestClient, method: str, path: str) -> None:
    assert "TRAINYARD_TOKEN" in refused(stranger.request(method, filled(path), headers=JSON, content=b"{"))
    wrong = {**JSON, "Authorization": "Bearer a-token-of-another-server"}
    assert "is nobody's" in refused(stranger.request(method, filled(path), headers=wrong))
    old = {**JSON, "Cookie": "trainyard-session-8000=a-session-of-another-server"}
    assert "has ended" in refused(stranger.request(method, filled(path), headers=old))


@pytest.mark.parametrize(("method", "path"), sorted(CLOSED))
def test_every_route_lets_the_token_pass(guarded: FastAPI, method: str, path: str) -> None:
    if path == "/api/v1/notices":
        return  # never ends: the test of a real server reads it
    answer = browser(guarded).request(method, filled(path), headers={**JSON, **WITH_TOKEN})
    assert answer.status_code not in (401, 403, 421, 429), answer.text


@pytest.mark.parametrize(
    "path", ["/api/v1/openapi.json", "/api/v1/nothing", "/api/v1", "/api", "/api/", "/api/v2/x"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE"])
def test_what_is_no_route_tells_a_stranger_nothing(stranger: TestClient, method: str, path: str) -> None:
    answer = stranger.request(method, path, headers=JSON)
    assert answer.status_code == 401


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE"])
def test_no_method_passes(stranger: TestClient, method: str) -> None:
    assert stranger.request(method, "/api/v1/jobs", headers=JSON).status_code == 401


# --- the token ---


@pytest.mark.parametrize(
    "header",
    [
        TOKEN, f"Token {TOKEN}", f"Basic {TOKEN}", f"Bearer{TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN}, Bearer {TOKEN}", f"Bearer {TOKEN} {TOKEN}",
        f"Bearer {'x' * 20_000}", "Bearer schön-und-auch-gut", f'Bearer "{TOKEN}"', f"Bearer {TOKEN}\x00",
    ],
)  # fmt: skip
def test_what_is_not_quite_the_token_is_refused(guarded: FastAPI, header: str) -> None:
    client = browser(guarded, f"192.0.3.{len(header) % 250}")
    refused(client.get("/api/v1/jobs", headers=[(b"authorization", header.encode("latin-1"))]))


@pytest.mark.parametrize("header", [f"bearer {TOKEN}", f"BEARER   {TOKEN}  "])
def test_the_schemes_case_and_spaces_do_not_matter(guarded: FastAPI, header: str) -> None:
    assert browser(guarded).get("/api/v1/jobs", headers={"Authorization": header}).status_code == 200


def test_two_tokens_are_nobodys(stranger: TestClient) -> None:
    twice = [("Authorization", "Bearer of-something-else"), ("Authorization", f"Bearer {TOKEN}")]
    for headers in (twice, twice[::-1]):
        assert "several tokens" in refused(stranger.get("/api/v1/jobs", headers=headers))


def test_a_proxys_own_credentials_do_not_disturb_a_session(stranger: TestClient) -> None:
    sign_in(stranger)
    assert stranger.get("/api/v1/jobs", headers={"Authorization": "Basic bWU6c2VjcmV0"}).status_code == 200
    refused(stranger.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong-though-signed-in"}))


@pytest.mark.parametrize("path", ["/api/v1/jobs?token={}", "/api/v1/jobs?access_token={}", "/?token={}"])
def test_a_token_in_an_address_is_of_no_use(stranger: TestClient, path: str) -> None:
    """Addresses are kept in histories and in the logs of proxies."""
    answer = stranger.get(path.format(TOKEN))
    assert answer.status_code == 401 or "<html" in answer.text
    refused(stranger.get("/api/v1/jobs"))


# --- the attempt's own token ---


def test_an_attempt_needs_its_own_token_and_no_other(guarded: FastAPI, stranger: TestClient) -> None:
    attempt = add_attempt(guarded.state.context.database)
    batches, seal = f"/api/v1/attempts/{attempt}/batches", f"/api/v1/attempts/{attempt}/seal"
    own = {"Authorization": f"Bearer {ATTEMPTS_TOKEN}"}
    as_batch = {"Content-Type": "application/octet-stream"}
    for headers in ({}, WITH_TOKEN):
        refused(stranger.post(batches, content=b"x", headers={**as_batch, "Authorization": "", **headers}))
        refused(stranger.post(seal, json={}, headers=headers))
    assert stranger.post(batches, content=b"x", headers={**as_batch, **own}).status_code == 400, "it is read"
    refused(stranger.get("/api/v1/jobs", headers=own))
    refused(stranger.get(f"/api/v1/attempts/{attempt}/batches", headers=own), 405)
    assert stranger.post(seal, json={}, headers=own).status_code == 200


# --- other sites, other names ---


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", ""]
)
def test_another_origins_page_writes_nothing_with_a_session(stranger: TestClient, origin: str) -> None:
    """Pages on other ports of the host are of the same site: browsers send them the cookie."""
    sign_in(stranger)
    for method, path in sorted(CLOSED):
        if method not in ("get", "head"):
            headers = {**JSON, "Origin": origin}
            refused(stranger.request(method, filled(path), headers=headers, content=b"{}"), 403)
    refused(stranger.delete("/api/v1/session", headers={**JSON, "Origin": origin}), 403)
    refused(stranger.post("/api/v1/session", json={"token": TOKEN}, headers={"Origin": origin}), 403)
    assert stranger.get("/api/v1/session").json()["signed_in"]


def test_the_pages_own_origin_writes(stranger: TestClient) -> None:
    sign_in(stranger)
    own = {**JSON, "Origin": "http://127.0.0.1:8000"}
    assert stranger.post("/api/v1/jobs/1/cancel", headers=own).status_code == 404
    behind_a_proxy = {**JSON, "Origin": "https://127.0.0.1:8000"}
    assert stranger.post("/api/v1/jobs/1/cancel", headers=behind_a_proxy).status_code == 404


def test_a_server_for_others_is_reached_by_address_and_by_the_machines_name(stranger: TestClient) -> None:
    machine = socket.gethostname()
    for host in ("192.168.1.5:8000", "[2001:db8::1]:8000", machine, machine.upper() + ":8000"):
        assert stranger.get("/api/v1/health", headers={"Host": host}).status_code == 200, host
    for host in (
        "rebound.example",
        "192.168.1.5.rebound.example",
        "",
        "0x7f.1",
        "[evil",
        "127.0.0.1.nip.io:8000",
        "localhost:80@evil.example",
        "localhost/x",
        "localhost:port",
        "localhost:123456",
        "[::1]x",
        "[localhost]",
        "localhost localhost",
    ):
        assert stranger.get("/api/v1/health", headers={"Host": host}).status_code == 421, host


def test_two_servers_of_one_machine_have_cookies_of_their_own(guarded: FastAPI) -> None:
    cookies = [sign_in(browser(guarded, url=f"http://127.0.0.1:{port}")) for port in (8000, 8001)]
    assert [cookie.partition("=")[0] for cookie in cookies] == [
        "trainyard-session-8000",
        "trainyard-session-8001",
    ]


# --- without a token ---


@pytest.mark.parametrize(("insecure", "kind"), [(False, "loopback"), (True, "insecure")])
def test_a_server_without_a_token_says_whom_it_answers(tmp_path: Path, insecure: bool, kind: str) -> None:
    app = application(tmp_path, token=None, insecure=insecure)
    with TestClient(app):
        client = browser(app)
        assert client.get("/api/v1/session").json() == {
            "access": kind,
            "signed_in": True,
            "user": None,
            "role": "admin",
            "ends_unix_ns": None,
            "admins": [],
            "newest_notice": 0,
        }
        assert client.get("/api/v1/health").json()["access"] == kind
        assert (
            client.get("/api/v1/jobs", headers={"Authorization": "Bearer of-whatever-there-is"}).status_code
            == 200
        )
        machine = client.get("/api/v1/health", headers={"Host": "192.168.1.5:8000"}).status_code
        assert machine == (200 if insecure else 421)
