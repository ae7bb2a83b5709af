"""Signing in with a browser, and guessing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import select

from backend.access.guesses import BURST
from backend.db import models
from backend.services import access
from tests.backend.guarded import TOKEN, WITH_TOKEN, application, browser, refused, sign_in
from tests.backend.job_specs import JSON

# --- signing in ---


def test_a_session_is_a_cookie_that_does_not_tell_the_token(guarded: FastAPI, stranger: TestClient) -> None:
    assert stranger.get("/api/v1/session").json() == {
        "access": "token",
        "signed_in": False,
        "user": None,
        "role": None,
        "admins": [],
        "ends_unix_ns": None,
        "newest_notice": None,
    }
    answer = stranger.post("/api/v1/session", json={"token": f" {TOKEN}\n"})
    name, _, rest = answer.headers["set-cookie"].partition("=")
    value, *attributes = rest.split("; ")
    assert name == "trainyard-session-8000"
    assert set(attributes) == {"HttpOnly", "Max-Age=604800", "Path=/api", "SameSite=strict"}
    assert len(value) == 43
    assert TOKEN not in value
    for path in ("/api/v1/jobs", "/api/v1/openapi.json", "/api/v1/strategies"):
        assert stranger.get(path).status_code == 200
    shown = stranger.get("/api/v1/session").json()
    assert (shown["access"], shown["signed_in"], shown["user"], shown["role"]) == (
        "token",
        True,
        "admin",
        "admin",
    )
    assert shown["ends_unix_ns"] == answer.json()["ends_unix_ns"]
    assert browser(guarded).get("/api/v1/session", headers=WITH_TOKEN).json()["signed_in"]
    with guarded.state.context.database.read() as session:
        stored = {row.id_sha256 for row in session.scalars(select(models.SignIn))}
    assert value not in stored


def test_over_https_the_cookie_is_secure(guarded: FastAPI) -> None:
    answer = browser(guarded, url="https://localhost").post("/api/v1/session", json={"token": TOKEN})
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith("trainyard-session=")
    assert "Secure" in attributes


def test_who_signs_out_is_out_with_every_copy_of_the_cookie(guarded: FastAPI, stranger: TestClient) -> None:
    copied, other = {"Cookie": sign_in(stranger)}, browser(guarded)
    sign_in(other)
    thief = browser(guarded)
    assert thief.get("/api/v1/jobs", headers=copied).status_code == 200
    answer = stranger.delete("/api/v1/session", headers=JSON)
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert not stranger.cookies
    assert "has none" in refused(stranger.get("/api/v1/jobs"))
    assert "has ended" in refused(thief.get("/api/v1/jobs", headers=copied))
    assert other.get("/api/v1/jobs").status_code == 200, "another browser stays signed in"
    assert stranger.delete("/api/v1/session", headers=JSON).status_code == 204, "twice is harmless"


def test_a_session_ends_by_itself(
    guarded: FastAPI, stranger: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SESSION_S", -1)
    sign_in(stranger)
    stranger.cookies.set("trainyard-session-8000", sign_in(stranger).partition("=")[2])
    assert "has ended" in refused(stranger.get("/api/v1/jobs"))
    assert not stranger.get("/api/v1/session").json()["signed_in"]


def test_there_are_only_so_many_sessions(guarded: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_SESSIONS", 3)
    clients = [browser(guarded) for _ in range(5)]
    for client in clients:
        sign_in(client)
    assert [client.get("/api/v1/jobs").status_code for client in clients] == [401, 401, 200, 200, 200]
    with guarded.state.context.database.read() as session:
        assert len(list(session.scalars(select(models.SignIn)))) == 3


def test_sessions_outlive_a_restart_but_not_another_token(tmp_path: Path) -> None:
    app = application(tmp_path)
    with TestClient(app):
        cookie = {"Cookie": sign_in(browser(app))}
        signed_out = {"Cookie": sign_in(browser(app))}
        browser(app).delete("/api/v1/session", headers=JSON | signed_out)
    app = application(tmp_path)
    with TestClient(app):
        assert browser(app).get("/api/v1/jobs", headers=cookie).status_code == 200
        refused(browser(app).get("/api/v1/jobs", headers=signed_out))
    app = application(tmp_path, token="another-token-of-mine")
    with TestClient(app):
        refused(browser(app).get("/api/v1/jobs", headers=cookie))
        refused(browser(app).get("/api/v1/jobs", headers=WITH_TOKEN))
    app = application(tmp_path, token=None)
    with TestClient(app):
        assert browser(app).get("/api/v1/jobs").status_code == 200
        assert "no token" in refused(browser(app).post("/api/v1/session", json={"token": TOKEN}), 409)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'"x"',
        b'{"token": 1}',
        b'{"token": null}',
        b'{"token": "\\ud800"}',
        b'{"token": {"a": 1}}',
        b'{"name": "\\ud800"}',
        b"\xff",
        b'{"token": "a\\u0000b"}',
    ],
)
def test_a_form_that_is_none_is_an_error_of_whoever_sent_it(stranger: TestClient, body: bytes) -> None:
    answer = stranger.post("/api/v1/session", content=body, headers=JSON)
    assert answer.status_code in (401, 422), answer.text
    assert "set-cookie" not in answer.headers


def test_a_field_too_many_does_not_come_back(stranger: TestClient) -> None:
    answer = stranger.post("/api/v1/session", json={"token": TOKEN, "password": "x"})
    assert answer.status_code == 422
    assert TOKEN not in answer.text


# --- guessing ---


def guess(client: TestClient, number: int, *, form: bool) -> Response:
    token = f"guess-number-{number:05}"
    if form:
        return client.post("/api/v1/session", json={"token": token})
    return client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("form", [True, False])
def test_who_guesses_has_to_wait(guarded: FastAPI, form: bool) -> None:
    client = browser(guarded, f"198.51.100.{1 + form}")
    signed_in = browser(guarded, f"198.51.100.{1 + form}")
    sign_in(signed_in)
    for number in range(BURST):
        refused(guess(client, number, form=form))
    answer = guess(client, BURST, form=form)
    assert "too many wrong tokens" in refused(answer, 429)
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    refused(client.get("/api/v1/jobs", headers=WITH_TOKEN), 429)
    refused(client.post("/api/v1/session", json={"token": TOKEN}), 429)
    refused(guess(client, BURST - 1, form=form))  # the same as before: it tells nothing
    assert signed_in.get("/api/v1/jobs").status_code == 200, "sessions are no guesses"
    assert client.get("/api/v1/health").status_code == 200
    assert browser(guarded, "198.51.100.9").get("/api/v1/jobs", headers=WITH_TOKEN).status_code == 200


def test_a_program_with_an_old_token_does_not_lock_out_its_neighbours(guarded: FastAPI) -> None:
    client = browser(guarded, "198.51.100.3")
    for _ in range(5 * BURST):
        refused(guess(client, 0, form=False))
    assert client.get("/api/v1/jobs", headers=WITH_TOKEN).status_code == 200
