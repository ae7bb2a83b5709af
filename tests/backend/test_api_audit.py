"""The audit log: what is in it, what is not, and that nobody changes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import delete, exc, text, update
from sqlalchemy.orm import Session

from backend.access.kept import LEAST_DAYS
from backend.access.rights import CHANGE_NOTHING, EVERYBODY
from backend.api.recorder import target_of
from backend.db import Database, WriterError, models
from backend.schemas.people import AuditDetails
from backend.services import old_entries
from backend.services.audit import Audit
from backend.services.jobs import Jobs
from backend.services.old_entries import OldEntries
from backend.services.retention import DAY_NS, EVERY_S
from tests.backend.guarded import (
    WITH_TOKEN,
    add_job,
    admin,
    application,
    browser,
    let_in,
    refused,
    sign_in,
    who_shows,
)
from tests.backend.job_specs import JSON, job_spec
from tests.backend.test_api_access import CLOSED, filled
from tests.backend.test_api_people import BY_OPERATION


def entries(app: FastAPI, **query: object) -> list[dict[str, Any]]:
    """Newest first."""
    answer = admin(app).get("/api/v1/audit", params={"limit": 200, **query})  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def test_who_did_what_to_which_thing_when_and_from_where(guarded: FastAPI) -> None:
    token = let_in(guarded, "nan", "member")
    job = add_job(guarded.state.context.database, "nan")
    nan = browser(guarded, "203.0.113.9")
    cookie = sign_in(nan, token)
    assert nan.patch(f"/api/v1/jobs/{job}", json={"note": "seen"}).status_code in (200, 422)
    assert nan.delete(f"/api/v1/jobs/{job}", headers=JSON).status_code == 204
    assert nan.delete("/api/v1/session", headers=JSON).status_code == 204
    found = entries(guarded, who="nan")
    assert [(entry["action"], entry["target"], entry["address"]) for entry in found] == [
        ("end_session", "session", "203.0.113.9"),
        ("delete_job", f"jobs/{job}", "203.0.113.9"),
        ("label_job", f"jobs/{job}", "203.0.113.9"),
        ("start_session", "session", "203.0.113.9"),
    ]
    assert {entry["token"] for entry in found} == {"a test's"}
    assert [entry["at"] for entry in found] == sorted((entry["at"] for entry in found), reverse=True)
    assert [entry["action"] for entry in entries(guarded, target=f"jobs/{job}")] == [
        "delete_job",
        "label_job",
    ]
    made, let = entries(guarded, action="make_token")[0], entries(guarded, target="users/nan")[0]
    assert (made["who"], made["status"], let["action"], let["status"]) == ("admin", 201, "add_user", 201)
    assert made["target"].startswith("tokens/")
    text = admin(guarded).get("/api/v1/audit?limit=200").text
    assert token not in text
    assert cookie.partition("=")[2] not in text


def test_what_was_given_and_taken(guarded: FastAPI) -> None:
    boss = admin(guarded)
    boss.post("/api/v1/users", json={"name": "ola", "role": "member"})
    made = boss.post("/api/v1/tokens", json={"name": "laptop", "user": "ola", "scope": "viewer"}).json()
    boss.patch("/api/v1/users/ola", json={"role": "viewer"})
    assert boss.post("/api/v1/users", json={"name": "ola"}).status_code == 409
    boss.delete(f"/api/v1/tokens/{made['id']}")
    boss.delete("/api/v1/users/ola")
    nothing = dict.fromkeys(AuditDetails.model_fields)
    token = nothing | {"user": "ola", "name": "laptop", "scope": "viewer", "expires_at": made["expires_at"]}
    assert [entry["details"] for entry in entries(guarded)[:6]] == [
        nothing | {"role": "viewer"},
        token,
        None,  # it was refused
        nothing | {"role": "viewer", "former_role": "member"},
        token,
        nothing | {"role": "member"},
    ]


def test_what_was_done_to_a_job(guarded: FastAPI) -> None:
    boss = admin(guarded)
    job, other = (
        boss.post("/api/v1/jobs", json=job_spec(name)).json()["id"] for name in ("audited", "other")
    )
    address = f"/api/v1/jobs/{job}"
    boss.patch(address, json={"tags": ["b", "a"], "note": "said to nobody else"})
    boss.patch(address, json={"tags": ["a"], "note": "said to nobody else"})
    boss.patch(address, json={"note": None})
    boss.patch(address, json={"tags": ["a"]})
    boss.put(f"{address}/baseline", json={"baseline": other})
    boss.put(f"{address}/baseline", json={"baseline": None})
    assert boss.post(f"{address}/preempt", json={}).status_code == 409
    found = [entry["details"] for entry in entries(guarded, target=f"jobs/{job}")]
    said = [
        None if each is None else {name: value for name, value in each.items() if value is not None}
        for each in found
    ]
    assert said[:-1] == [
        None,  # it was refused
        {"former_baseline": other},
        {"baseline": other},
        None,  # nothing has changed
        {"note": "removed"},
        {"tags": ["a"], "former_tags": ["a", "b"]},
        {"tags": ["a", "b"], "former_tags": [], "note": "written"},
    ]
    assert "said to nobody else" not in boss.get("/api/v1/audit?limit=200").text


def test_every_write_of_the_document_is_recorded_and_nothing_else(tmp_path: Path) -> None:
    app = application(tmp_path)
    with TestClient(app):
        boss = admin(app)
        wanted = set()
        for name, (method, path) in sorted(BY_OPERATION.items()):
            if name == "follow_notices":
                continue
            boss.request(method, filled(path), content=b"{}")
            if method != "get" and name not in CHANGE_NOTHING:
                wanted.add(name)
        found = entries(app)
        assert {entry["action"] for entry in found} == wanted
        assert len(found) == len(wanted)
        assert {entry["who"] for entry in found} == {"admin"}


def test_what_did_not_get_in_is_not_recorded(guarded: FastAPI) -> None:
    before = entries(guarded)
    viewer = who_shows(guarded, let_in(guarded, "pia", "viewer"))
    known = len(before) + 2
    for method, path in CLOSED:
        if method != "get":
            refused(browser(guarded).request(method, filled(path), headers=JSON, content=b"{"))
    refused(viewer.post("/api/v1/jobs", content=b"{"), 403)
    assert len(entries(guarded)) == known


def test_a_server_that_asks_nobody_records_from_where(tmp_path: Path) -> None:
    app = application(tmp_path, token=None, insecure=True)
    with TestClient(app):
        browser(app, "203.0.113.7").post("/api/v1/jobs/nobody/cancel", headers=JSON)
        (entry,) = browser(app).get("/api/v1/audit").json()["items"]
    assert (entry["who"], entry["token"], entry["action"]) == (None, None, "cancel_job")
    assert (entry["target"], entry["address"], entry["status"]) == ("jobs/nobody", "203.0.113.7", 404)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/api/v1/jobs/7", "jobs/7"),
        ("/api/v1/jobs/7/cancel", "jobs/7"),
        ("/api/v1/jobs", "jobs"),
        ("/api/v1/races/7/members", "races/7"),
        ("/api/v1/users/eve@example.org", "users/eve@example.org"),
    ],
)
def test_what_an_address_is_about(address: str, target: str) -> None:
    assert target_of(address) == target


def test_pages_follow_one_another(guarded: FastAPI) -> None:
    audit = guarded.state.context.audit
    for number in range(5):
        audit.add(EVERYBODY, "counted", f"jobs/{number}", None, 200).result()
    boss, seen, cursor = admin(guarded), [], None
    while True:
        query = {"action": "counted", "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = boss.get("/api/v1/audit", params=query).json()
        seen += [entry["target"] for entry in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == [f"jobs/{number}" for number in reversed(range(5))]
    refused(boss.get("/api/v1/audit?cursor=none"), 422)


def test_an_entry_is_stored_before_its_answer_leaves(
    guarded: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(guarded.state.context.database, None)
    admin(guarded).post(f"/api/v1/jobs/{job}/cancel", content=b"{}")
    with guarded.state.context.database.read() as session:
        row = models.AuditEntry
        assert session.query(row).where(row.target == f"jobs/{job}").one().action == "cancel_job"


def test_what_fails_after_it_was_done_is_recorded(guarded: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    database = guarded.state.context.database
    job, other = add_job(database, None), add_job(database, None)

    def fails(jobs: Jobs, job_id: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Jobs, "show", fails)
    client = TestClient(guarded, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
    answer = client.put(f"/api/v1/jobs/{job}/baseline", json={"baseline": other}, headers=WITH_TOKEN)
    assert answer.status_code == 500
    (entry,) = entries(guarded, target=f"jobs/{job}")
    assert (entry["who"], entry["action"], entry["status"]) == ("admin", "choose_baseline", 500)


def test_what_cannot_be_recorded_is_one_line_of_the_servers_log(
    guarded: FastAPI, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the address holds: else somebody could write lines of their own there."""

    def fails(*_: object) -> None:
        raise WriterError("the disk is full")

    monkeypatch.setattr(Audit, "add", fails)
    admin(guarded).delete("/api/v1/users/a%0AERROR%20forged")
    (line,) = [record.getMessage() for record in caplog.records if "the disk is full" in record.getMessage()]
    assert "forged" in line
    assert "\n" not in line


def test_what_is_old_goes_and_the_database_keeps_what_is_young(
    new_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    aged = [400, 366, 364, LEAST_DAYS - 1, 0]

    def write(session: Session) -> None:
        for days in aged:
            row = models.AuditEntry(at_unix_ns=now - days * DAY_NS, action="a", target=str(days), status=200)
            session.add(row)
            session.flush()

    def kept() -> list[int]:
        with new_database.read() as session:
            return [
                int(row.target) for row in session.query(models.AuditEntry).order_by(models.AuditEntry.id)
            ]

    new_database.writer.run(write)
    monkeypatch.setattr(old_entries, "PORTION", 1)
    assert OldEntries(new_database, models.AuditEntry, 365).look() == EVERY_S
    assert kept() == aged[2:]
    with pytest.raises((exc.DatabaseError, RuntimeError), match="append-only"):
        OldEntries(new_database, models.AuditEntry, LEAST_DAYS - 2).look()
    assert kept() == aged[3:], "what is older than that had gone before"


@pytest.mark.parametrize("change", ["update", "delete", "replace"])
def test_the_database_refuses_to_change_what_was_recorded(new_database: Database, change: str) -> None:
    Audit(new_database).add(EVERYBODY, "cancel_job", "jobs/7", None, 200).result()
    statements: dict[str, Callable[[Session], object]] = {
        "update": lambda session: session.execute(update(models.AuditEntry).values(who="somebody else")),
        "delete": lambda session: session.execute(delete(models.AuditEntry)),
        # Both go past a trigger of single rows that are deleted.
        "replace": lambda session: session.execute(
            text(
                "TRUNCATE audit"
                if new_database.shared
                else "INSERT OR REPLACE INTO audit (id, at_unix_ns, action, target, status)"
                " SELECT id, 1, action, 'nothing', 200 FROM audit"
            )
        ),
    }
    with pytest.raises((exc.DatabaseError, RuntimeError), match="append-only"):
        new_database.writer.run(statements[change])
    with new_database.read() as session:
        assert session.query(models.AuditEntry).one().target == "jobs/7"
