"""Users, roles and tokens: every operation of the document by every role, and what users and tokens do and outlive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from backend.access.rights import CHANGE_NOTHING, LEAST, OWN, ROLES, Role, least, lesser, may, one
from backend.db import models
from backend.services.racing import Racing
from tests.backend.guarded import (
    TOKEN,
    WITH_TOKEN,
    add_job,
    add_race,
    admin,
    application,
    browser,
    let_in,
    refused,
    sign_in,
    who_shows,
)
from tests.backend.ingest_server import TOKEN as ATTEMPTS_TOKEN
from tests.backend.ingest_server import add_attempt
from tests.backend.job_specs import JSON, job_spec
from tests.backend.raced_jobs import race_spec
from tests.backend.test_api_access import CLOSED, OPERATIONS, filled

BY_OPERATION = {
    operation["operationId"]: (method, path)
    for method, path, operation in OPERATIONS
    if (method, path) in CLOSED
}
ENDLESS = {"follow_notices"}
"""Its answer has no end: a test of a real server reads it."""

# --- the table ---


def test_the_table_of_rights_has_every_operation_and_no_other() -> None:
    """One that it lacks is the admins' alone."""
    assert set(LEAST) == set(BY_OPERATION)
    assert set(OWN) | CHANGE_NOTHING <= set(LEAST)
    assert all(f"{{{OWN[name]}}}" in BY_OPERATION[name][1] for name in OWN)
    assert all(least(name) == "member" for name in OWN)
    assert least("of_tomorrow") == "admin"
    for _, path, operation in OPERATIONS:
        if operation["operationId"] in LEAST:
            assert operation["x-least-role"] == LEAST[operation["operationId"]], path


def test_who_only_looks_changes_nothing_but_what_is_theirs() -> None:
    theirs = {"make_token", "revoke_token", "remove_secret", "remove_webhook"}
    writes = {name for name, (method, _) in BY_OPERATION.items() if method != "get"} - CHANGE_NOTHING
    assert {name for name in writes if LEAST[name] == "viewer"} == theirs


def test_roles_are_in_order() -> None:
    for place, role in enumerate(ROLES):
        assert [may(role, other) for other in ROLES] == [True] * (place + 1) + [False] * (
            len(ROLES) - place - 1
        )
        assert lesser(role, "viewer") == lesser("viewer", role) == "viewer"
        assert lesser(role, "admin") == role


# --- every operation ---


@pytest.mark.parametrize(
    ("role", "scope"),
    [("viewer", None), ("member", None), ("member", "viewer"), ("admin", "member"), ("admin", None)],
)  # fmt: skip
def test_every_operation_refuses_who_has_too_small_a_right(
    guarded: FastAPI, role: Role, scope: Role | None
) -> None:
    """Also by a token's scope; and it answers everybody else."""
    client = who_shows(guarded, let_in(guarded, f"a-{role}-{scope}", role, scope))
    has = scope or role
    before = {name: may(has, least(name)) for name in BY_OPERATION if name not in ENDLESS}
    for name, allowed in before.items():
        method, path = BY_OPERATION[name]
        answer = client.request(method, filled(path), content=b"{" if not allowed else b"{}")
        if allowed:
            assert answer.status_code not in (401, 403, 421, 429, 500), (name, answer.text)
        else:
            assert f"{name} is for {one(least(name))}, and this token is {one(has)}'s" in refused(answer, 403)
    assert set(before.values()) == ({True} if has == "admin" else {True, False})


@pytest.mark.parametrize("method", ["HEAD", "get"])
def test_a_head_is_a_get(guarded: FastAPI, method: str) -> None:
    client = who_shows(guarded, let_in(guarded, "a-looker", "viewer"))
    assert client.request(method, "/api/v1/users").status_code == 403
    assert client.request(method, "/api/v1/jobs").status_code == 200


def test_an_attempts_token_opens_nothing_but_its_telemetry(guarded: FastAPI) -> None:
    database = guarded.state.context.database
    own, another = add_attempt(database), add_attempt(database)
    client = who_shows(guarded, ATTEMPTS_TOKEN)
    for method, path in CLOSED:
        refused(client.request(method, filled(path), content=b"{"))
    assert client.post(f"/api/v1/attempts/{own}/seal", json={}).status_code == 200

    def other_token(session: Session) -> None:
        session.get_one(models.Attempt, another).token_sha256 = "0" * 64

    database.writer.run(other_token)
    as_batch = {"Content-Type": "application/octet-stream"}
    refused(client.post(f"/api/v1/attempts/{another}/batches", content=b"x", headers=as_batch))
    refused(client.post(f"/api/v1/attempts/{another}/seal", json={}))


# --- one's own ---


def test_a_member_ends_and_changes_what_is_their_own_only(guarded: FastAPI) -> None:
    database = guarded.state.context.database
    ada, bob = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("ada", "bob"))
    for name, parameter in sorted(OWN.items()):
        method, path = BY_OPERATION[name]
        add = add_job if parameter == "job_id" else add_race
        theirs, nobodys = add(database, "ada"), add(database, None)
        for id_, mine in ((theirs, False), (nobodys, True)):
            address = path.replace(f"{{{parameter}}}", id_)
            answer = bob.request(method, address, content=b"{}")
            assert (answer.status_code == 403) is not mine, (name, answer.text)
        address = path.replace(f"{{{parameter}}}", theirs)
        assert "this is ada's" in refused(bob.request(method, address, content=b"{"), 403)
        assert ada.request(method, address, content=b"{}").status_code != 403, name
        again = path.replace(f"{{{parameter}}}", add(database, "ada"))
        assert admin(guarded).request(method, again, content=b"{}").status_code != 403, name


def test_jobs_and_races_say_whose_they_are(guarded: FastAPI) -> None:
    database = guarded.state.context.database
    cid = who_shows(guarded, let_in(guarded, "cid", "viewer"))
    job, race = add_job(database, "cid"), add_race(database, "cid")
    nobodys = add_job(database, None)
    listed = cid.get("/api/v1/jobs", params={"owner": "cid"}).json()["items"]
    assert [(item["id"], item["owner"]) for item in listed] == [(job, "cid")]
    everybodys = {item["id"]: item["owner"] for item in cid.get("/api/v1/jobs?limit=200").json()["items"]}
    assert (everybodys[job], everybodys[nobodys]) == ("cid", None)
    races = {item["id"]: item["owner"] for item in cid.get("/api/v1/races?limit=200").json()["items"]}
    assert races[race] == "cid"


def test_what_a_race_or_a_clone_makes_is_whose_it_was_asked_by(guarded: FastAPI) -> None:
    context = guarded.state.context
    rae, sam = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("rae", "sam"))
    answer = rae.post("/api/v1/races", json=race_spec("p3", "parameter-server", rounds=1))
    assert (answer.status_code, answer.json()["owner"]) == (201, "rae"), answer.text
    assert Racing(context.database, context.jobs).step()
    (raced,) = rae.get("/api/v1/jobs", params={"race": answer.json()["id"]}).json()["items"]
    assert raced["owner"] == "rae"
    cloned = sam.post(f"/api/v1/jobs/{raced['id']}/clone", json={})
    assert (cloned.status_code, cloned.json()["owner"]) == (201, "sam"), cloned.text


def test_a_key_is_of_who_used_it_first(guarded: FastAPI) -> None:
    """Else somebody would be answered with another's job, and have none."""
    una, vic = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("una", "vic"))
    for path, body in (("jobs", job_spec("keyed")), ("races", race_spec("p3", "parameter-server", rounds=1))):
        asked = {"url": f"/api/v1/{path}", "json": body, "headers": {"Idempotency-Key": "nightly"}}
        first = una.post(**asked)
        assert first.status_code == 201, first.text
        assert "was used by una" in refused(vic.post(**asked), 409)
        again = una.post(**asked)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


# --- users ---


def test_a_user_comes_changes_and_goes(guarded: FastAPI) -> None:
    boss = admin(guarded)
    added = boss.post("/api/v1/users", json={"name": "eve@example.org"})
    assert (added.status_code, added.json()["role"], added.json()["tokens"]) == (201, "member", [])
    assert added.headers["location"] == "/api/v1/users/eve@example.org"
    assert "is a user already" in refused(boss.post("/api/v1/users", json={"name": "eve@example.org"}), 409)
    eve = who_shows(guarded, let_in(guarded, "eve@example.org", "member"))
    asked = eve.get("/api/v1/session").json()
    assert (asked["user"], asked["role"], asked["ends_unix_ns"]) == ("eve@example.org", "member", None)
    refused(eve.get("/api/v1/users"), 403)
    assert boss.patch("/api/v1/users/eve@example.org", json={"role": "admin"}).json()["role"] == "admin"
    assert "eve@example.org" not in refused(eve.get("/api/v1/users"), 403), "her token's scope stays"
    assert boss.patch("/api/v1/users/eve@example.org", json={"role": "viewer"}).status_code == 200
    refused(eve.post("/api/v1/jobs", content=b"{"), 403)
    job = add_job(guarded.state.context.database, "eve@example.org")
    assert boss.delete("/api/v1/users/eve@example.org").status_code == 204
    refused(eve.get("/api/v1/jobs"))
    assert "no such user" in refused(boss.delete("/api/v1/users/eve@example.org"), 404)
    assert "eve@example.org" not in {user["name"] for user in boss.get("/api/v1/users").json()}
    (gone,) = [user for user in boss.get("/api/v1/users?removed=true").json() if user["removed_at"]]
    assert (gone["name"], gone["tokens"]) == ("eve@example.org", []), (
        "the audit log is asked for what she did"
    )
    assert boss.get("/api/v1/jobs?owner=eve@example.org").json()["items"][0]["id"] == job, (
        "what she made stays"
    )
    back = boss.post("/api/v1/users", json={"name": "eve@example.org", "role": "viewer"})
    assert (back.status_code, back.json()["tokens"]) == (201, [])
    refused(eve.get("/api/v1/jobs"))


@pytest.mark.parametrize(
    "name", ["", "two words", "-dash", "a/b", "é", "x" * 101, "../admin", "a\nb", None, 7]
)
def test_a_name_that_cannot_stand_in_an_address_is_refused(guarded: FastAPI, name: object) -> None:
    error = refused(admin(guarded).post("/api/v1/users", json={"name": name}), 422)
    assert "letters, digits, and . _ @ -" in error or not isinstance(name, str)


def test_somebody_can_always_administer(guarded: FastAPI) -> None:
    boss = admin(guarded)
    own = next(token for token in boss.get("/api/v1/tokens").json() if token["environment"])
    assert "TRAINYARD_TOKEN" in refused(boss.delete(f"/api/v1/tokens/{own['id']}"), 409)
    for answer in (
        boss.delete("/api/v1/users/admin"),
        boss.patch("/api/v1/users/admin", json={"role": "viewer"}),
    ):
        assert "the server's own token" in refused(answer, 409)
    assert boss.get("/api/v1/users").status_code == 200


def test_the_last_admin_stays_one(tmp_path: Path) -> None:
    app = application(tmp_path, token=None, people=True)
    with TestClient(app):
        first = app.state.context.access.fresh
        boss = who_shows(app, first)
        (held,) = boss.get("/api/v1/tokens").json()
        for answer in (
            boss.delete(f"/api/v1/tokens/{held['id']}"),
            boss.delete("/api/v1/users/admin"),
            boss.patch("/api/v1/users/admin", json={"role": "member"}),
        ):
            assert "nobody could administer" in refused(answer, 409)
        assert boss.post("/api/v1/users", json={"name": "second", "role": "admin"}).status_code == 201
        assert "nobody could administer" in refused(boss.delete("/api/v1/users/admin"), 409), (
            "without a token"
        )
        made = boss.post("/api/v1/tokens", json={"name": "x", "user": "second"}).json()
        assert boss.delete("/api/v1/users/admin").status_code == 204
        refused(boss.get("/api/v1/jobs"))
        assert who_shows(app, made["token"]).get("/api/v1/users").status_code == 200


# --- tokens ---


def test_a_token_is_shown_once_and_hashed(guarded: FastAPI) -> None:
    client = who_shows(guarded, let_in(guarded, "fay", "member"))
    made = client.post("/api/v1/tokens", json={"name": "laptop", "days": 7})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    token = made.json()
    assert (token["user"], token["name"], token["scope"], token["environment"]) == (
        "fay",
        "laptop",
        "member",
        False,
    )
    assert token["last_used_at"] is None
    newest, *_ = listed = client.get("/api/v1/tokens").json()
    assert newest == {name: value for name, value in token.items() if name != "token"}
    assert all("token" not in each and "hash" not in each for each in listed)
    assert who_shows(guarded, token["token"]).get("/api/v1/jobs").status_code == 200
    database = guarded.state.context.database
    database.writer.run(lambda session: None)  # the time of its use is written without waiting for it
    assert client.get("/api/v1/tokens").json()[0]["last_used_at"] is not None
    for file in Path(guarded.state.context.settings.data_dir).glob("trainyard.db*"):
        content = file.read_bytes()
        assert token["token"].encode() not in content
        assert TOKEN.encode() not in content
    assert client.delete(f"/api/v1/tokens/{token['id']}").status_code == 204
    refused(who_shows(guarded, token["token"]).get("/api/v1/jobs"))
    assert "no such token" in refused(client.delete(f"/api/v1/tokens/{token['id']}"), 404)


def test_a_token_may_no_more_than_who_makes_it(guarded: FastAPI) -> None:
    boss = admin(guarded)
    viewer = who_shows(guarded, let_in(guarded, "gus", "member", "viewer"))
    assert "may not make one that may more" in refused(
        viewer.post("/api/v1/tokens", json={"name": "x", "scope": "member"}), 403
    )
    assert viewer.post("/api/v1/tokens", json={"name": "x"}).json()["scope"] == "viewer"
    assert "may not do that" in refused(
        boss.post("/api/v1/tokens", json={"name": "x", "user": "gus", "scope": "admin"}), 422
    )
    assert "an admin's" in refused(viewer.post("/api/v1/tokens", json={"name": "x", "user": "admin"}), 403)
    refused(boss.post("/api/v1/tokens", json={"name": "x", "user": "nobody"}), 404)
    for wrong in (
        {},
        {"name": ""},
        {"name": "x", "days": -1},
        {"name": "x", "scope": "root"},
        {"name": "x", "more": 1},
    ):
        assert boss.post("/api/v1/tokens", json=wrong).status_code == 422, wrong


def test_a_token_outlives_none_by_which_it_was_made(guarded: FastAPI) -> None:
    boss = admin(guarded)
    assert boss.post("/api/v1/tokens", json={"name": "x", "days": 0}).json()["expires_at"] is None
    boss.post("/api/v1/users", json={"name": "lou", "role": "admin"})
    short = boss.post("/api/v1/tokens", json={"name": "a week's", "user": "lou", "days": 7}).json()
    lou, asked = who_shows(guarded, short["token"]), {"name": "x", "user": "admin"}
    for days in (0, 7, 90):
        detail = refused(lou.post("/api/v1/tokens", json={**asked, "days": days}), 422)
        assert f"expires on {short['expires_at'][:10]}. Ask for 6 or fewer" in detail
    assert lou.post("/api/v1/tokens", json=asked).json()["expires_at"] == short["expires_at"]
    assert lou.post("/api/v1/tokens", json={**asked, "days": 6}).json()["expires_at"] < short["expires_at"]


def test_nobody_revokes_anothers_token_but_an_admin(guarded: FastAPI) -> None:
    hal, ida = (who_shows(guarded, let_in(guarded, name, "member")) for name in ("hal", "ida"))
    (theirs,) = hal.get("/api/v1/tokens").json()
    assert "no such token" in refused(ida.delete(f"/api/v1/tokens/{theirs['id']}"), 404)
    assert hal.get("/api/v1/jobs").status_code == 200
    assert admin(guarded).delete(f"/api/v1/tokens/{theirs['id']}").status_code == 204
    refused(hal.get("/api/v1/jobs"))


def test_a_token_that_only_looks_revokes_none_that_may_more(guarded: FastAPI) -> None:
    """A dashboard has one, and who takes it from there must not lock its user out."""
    wide, looks = let_in(guarded, "liv", "member"), let_in(guarded, "liv", "member", "viewer")
    held = {each["scope"]: each["id"] for each in who_shows(guarded, wide).get("/api/v1/tokens").json()}
    viewer = who_shows(guarded, looks)
    assert "may not revoke one that may more" in refused(
        viewer.delete(f"/api/v1/tokens/{held['member']}"), 403
    )
    assert who_shows(guarded, wide).get("/api/v1/jobs").status_code == 200
    assert admin(guarded).patch("/api/v1/users/liv", json={"role": "viewer"}).status_code == 200
    assert viewer.delete(f"/api/v1/tokens/{held['member']}").status_code == 204, "it may no more now"


def test_a_token_expires(guarded: FastAPI) -> None:
    token = let_in(guarded, "jon", "member")
    jon, signed_in = who_shows(guarded, token), browser(guarded, "192.0.2.77")
    sign_in(signed_in, token)
    assert jon.get("/api/v1/jobs").status_code == signed_in.get("/api/v1/jobs").status_code == 200
    (held,) = jon.get("/api/v1/tokens").json()
    context = guarded.state.context

    def age(session: Session) -> None:
        row = update(models.Token).where(models.Token.id == held["id"])
        session.execute(row.values(expires_unix_ns=time.time_ns() - 1))

    context.database.writer.run(age)
    context.access.tokens.load()
    assert "has expired" in refused(jon.get("/api/v1/jobs"))
    assert "has ended" in refused(signed_in.get("/api/v1/jobs"))


def test_a_session_ends_with_its_token_and_has_its_scope(guarded: FastAPI) -> None:
    token = let_in(guarded, "kim", "admin", "viewer")
    kim = browser(guarded, "192.0.2.78")
    sign_in(kim, token)
    shown = kim.get("/api/v1/session").json()
    assert (shown["user"], shown["role"], shown["signed_in"]) == ("kim", "viewer", True)
    assert "this session is a viewer's" in refused(kim.get("/api/v1/users"), 403)
    held = kim.get("/api/v1/tokens").json()[0]
    assert kim.delete(f"/api/v1/tokens/{held['id']}", headers=JSON).status_code == 204
    assert "has ended" in refused(kim.get("/api/v1/jobs"))
    with guarded.state.context.database.read() as session:
        row = models.SignIn
        assert session.scalars(select(row).where(row.token_id == held["id"])).first() is None


# --- guesses ---


def test_a_users_token_is_no_guess(guarded: FastAPI) -> None:
    token = let_in(guarded, "max", "viewer")
    client = browser(guarded, "198.51.100.40")
    for _ in range(12):
        assert client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert client.get("/api/v1/jobs", headers=WITH_TOKEN).status_code == 200


# --- many requests ---


def test_a_token_that_asks_in_a_loop_waits_and_others_do_not(tmp_path: Path) -> None:
    app = application(tmp_path, token_requests_per_second=0.3)
    with TestClient(app):
        looped, other = who_shows(app, let_in(app, "ned", "viewer")), who_shows(app, TOKEN)
        answers = [looped.get("/api/v1/words") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert "has made more than 0.3 requests in a second" in refused(answers[-1], 429)
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 4
        assert looped.get("/api/v1/health").status_code == 200
        assert other.get("/api/v1/words").status_code == 200
