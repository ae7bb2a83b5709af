"""What a stranger tries who knows how this is built: each is refused, and nothing tells what it should not."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from backend.db.engine import shown
from backend.executors.environment import inherited
from tests.backend.guarded import TOKEN, add_job, admin, browser, let_in, refused, sign_in, who_shows
from tests.backend.job_specs import JSON

SECRET = "S3cr3t-of-somebody"


def test_nobody_gets_a_session_whose_cookie_they_have_planted(guarded: FastAPI, stranger: TestClient) -> None:
    """Session fixation: the id is always the server's own."""
    planted = {"Cookie": "trainyard-session-8000=planted-by-somebody"}
    answer = stranger.post("/api/v1/session", json={"token": TOKEN}, headers=planted)
    assert (answer.status_code, "planted" in answer.headers["set-cookie"]) == (200, False)
    assert "has ended" in refused(browser(guarded).get("/api/v1/jobs", headers=planted))


def test_who_signs_in_again_leaves_no_session_behind(guarded: FastAPI) -> None:
    client = browser(guarded)
    first = {"Cookie": sign_in(client)}
    second = {"Cookie": sign_in(client)}
    assert "has ended" in refused(browser(guarded).get("/api/v1/jobs", headers=first))
    assert browser(guarded).get("/api/v1/jobs", headers=second).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"tokn": SECRET},
        {"token": [SECRET]},
        {"token": {SECRET: SECRET}},
        {"token": SECRET, SECRET: 1},
        SECRET,
    ],
)
def test_a_token_in_the_wrong_place_is_not_repeated(guarded: FastAPI, body: object) -> None:
    answer = browser(guarded, "192.0.5.1").post("/api/v1/session", json=body)
    assert answer.status_code == 422
    assert SECRET not in answer.text.replace("**", "")
    answer = admin(guarded).put("/api/v1/secrets/HF_TOKEN", json={"valeu": SECRET})
    assert (answer.status_code, SECRET in answer.text) == (422, False)


def test_a_form_of_another_site_changes_nothing(guarded: FastAPI, stranger: TestClient) -> None:
    """With the session's cookie, which a browser of ours would not even send."""
    job, cookie = add_job(guarded.state.context.database, None), sign_in(stranger)
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
        headers = {"Cookie": cookie, "Content-Type": kind, "Origin": "http://evil.example"}
        answer = browser(guarded).post(f"/api/v1/jobs/{job}/cancel", content=b"a=b", headers=headers)
        assert answer.status_code in (403, 415), kind
    as_json = {**JSON, "Cookie": cookie, "Origin": "http://127.0.0.1:9000"}
    assert "may write only from" in refused(
        browser(guarded).delete(f"/api/v1/jobs/{job}", headers=as_json), 403
    ), "another port of this host is the same site to a browser"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/{job}/log?party=..%2f..%2fingest.json",
        "/api/v1/jobs/{job}/tables?tables=../../../etc/passwd",
        "/api/v1/jobs/{job}/export?what=../ingest.json",
        "/api/v1/jobs/{job}/export?step=..%2f1",
        "/api/v1/jobs/..%2f..%2fetc/tables",
        "/api/v1/jobs/{job}/figures/..%2f..%2fpasswd",
    ],
)
def test_no_name_leads_out_of_what_it_names(guarded: FastAPI, path: str) -> None:
    job = add_job(guarded.state.context.database, None)
    answer = admin(guarded).get(path.format(job=job))
    assert answer.status_code in (404, 409, 422), answer.text
    assert "root:" not in answer.text


def test_a_name_writes_no_header_of_its_own(guarded: FastAPI) -> None:
    """Names of users and secrets stand in addresses, and in the header that says where something is."""
    answer = admin(guarded).post("/api/v1/users", json={"name": "a\r\nSet-Cookie: x=y"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)


def test_a_jobs_environment_does_not_tell_the_databases_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it may make themselves an admin."""
    for name in (
        "PGPASSWORD",
        "PGPASSFILE",
        "TRAINYARD_DATABASE_URL",
        "trainyard_token",
        "TRAINYARD_SECRETS_KEY_FILE",
    ):
        monkeypatch.setenv(name, SECRET)
    assert SECRET not in inherited().values()
    assert "PATH" in inherited()


def test_the_databases_password_is_in_no_message() -> None:
    for url in (
        f"postgresql://ada:{SECRET}@host/db",
        f"postgresql://host/db?password={SECRET}&sslpassword={SECRET}",
    ):
        assert SECRET not in shown(make_url(url))
        assert "host/db" in shown(make_url(url))


def test_who_only_looks_has_neither_webhooks_nor_secrets(guarded: FastAPI) -> None:
    viewer = who_shows(guarded, let_in(guarded, "vera", "member", "viewer"))
    hook = {"name": "x", "url": "https://example.org/", "events": ["job.ended"]}
    theirs = who_shows(guarded, let_in(guarded, "vera", "member")).post("/api/v1/webhooks", json=hook).json()
    shown = viewer.get(f"/api/v1/webhooks/{theirs['id']}/deliveries")
    assert (shown.status_code, shown.json()["items"]) == (200, []), "the list shows the newest of these, too"
    assert "for a member" in refused(viewer.post("/api/v1/webhooks", json=hook), 403)
    assert "for a member" in refused(viewer.put("/api/v1/secrets/HF_TOKEN", json={"value": SECRET}), 403)
