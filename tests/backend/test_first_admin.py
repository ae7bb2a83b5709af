"""Starts of a server that asks who one is: somebody may administer it. One that asks nobody has no users."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session

from backend.access.rights import Caller
from backend.cli.serve import read_settings
from backend.db import Database, models
from backend.schemas.people import TokenRequest, UserRequest
from backend.services.access import Access
from backend.services.errors import Unauthorized
from backend.services.people import People
from backend.settings import Settings
from engine.errors import UserError
from tests.backend.guarded import TOKEN, application, browser, refused
from tests.backend.job_specs import JSON


def start(database: Database, token: str | None = None) -> Access:
    """What a server on loopback that asks knows of its people as it starts."""
    return Access(database, Settings(people=True, token=token))  # type: ignore[arg-type]


def whose(access: Access, token: str | None) -> Caller:
    assert token is not None
    return access.by_token(token.encode(), None)


def test_a_start_makes_an_admin_only_where_nobody_could_administer(new_database: Database) -> None:
    access = start(new_database)
    first = access.fresh
    admin = whose(access, first)
    assert (admin.name, admin.role, admin.token_name) == ("admin", "admin", "first start")
    people = People(new_database, access)
    people.add(UserRequest(name="lea"))
    theirs = people.make(admin, TokenRequest(name="x", user="lea")).token

    access = start(new_database)
    assert access.fresh is None, "somebody may"
    assert whose(access, first).role == "admin"

    access = start(new_database, TOKEN)
    assert access.fresh is None
    assert [whose(access, token).name for token in (TOKEN, first, theirs)] == ["admin", "admin", "lea"]
    assert start(new_database, TOKEN).fresh is None, "twice the same"

    access = start(new_database, first)
    assert whose(access, first).role == "admin"
    with pytest.raises(Unauthorized):
        whose(access, TOKEN)
    assert whose(start(new_database, TOKEN), TOKEN).role == "admin", "and back again"

    with pytest.raises(UserError, match="of the user 'lea' that does not open everything"):
        start(new_database, theirs)
    People(new_database, access).remove("lea")
    with pytest.raises(UserError, match="of the user 'lea' that has been revoked"):
        start(new_database, theirs)


def test_the_servers_own_token_is_kept_by_a_slow_hash(new_database: Database) -> None:
    start(new_database, TOKEN)
    with new_database.read() as session:
        (row,) = session.query(models.Token)
    assert (row.environment, row.scope, len(row.hash)) == (True, "admin", 64)
    fast = Access(
        new_database, Settings(people=True)
    ).tokens  # a start without it: no hash of its row opens anything
    assert fast.by_digest(bytes.fromhex(row.hash)) is None


def test_who_lost_every_admins_token_starts_the_server_again(new_database: Database) -> None:
    first = start(new_database).fresh

    def forget(session: Session) -> None:
        session.execute(update(models.Token).values(revoked_unix_ns=1))
        session.execute(update(models.User).values(role="viewer", removed_unix_ns=1))

    new_database.writer.run(forget)
    access = start(new_database)
    assert whose(access, access.fresh).role == "admin"
    assert access.fresh != first
    with pytest.raises(Unauthorized):
        whose(access, first)
    assert start(new_database).fresh is None


def test_a_server_that_asks_nobody_has_no_users(tmp_path: Path) -> None:
    """Else a stranger's token would still open it once it asks. And it counts nobody's requests."""
    app = application(tmp_path, token=None, insecure=True, token_requests_per_second=0.1)
    with TestClient(app):
        client = browser(app)
        assert client.get("/api/v1/users").json() == client.get("/api/v1/tokens").json() == []
        for method, path, body in (
            ("post", "/api/v1/users", {"name": "mallory", "role": "admin"}),
            ("patch", "/api/v1/users/admin", {"role": "admin"}),
            ("post", "/api/v1/tokens", {"name": "x", "user": "admin"}),
        ):
            answer = client.request(method, path, json=body)
            assert "asks nobody who they are" in refused(answer, 409)
        for path in ("/api/v1/users/admin", "/api/v1/tokens/1"):
            refused(client.delete(path, headers=JSON), 409)
        assert app.state.context.access.fresh is None


def test_people_are_asked_on_loopback_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_PEOPLE", "1")
    assert read_settings().asks


def test_a_start_that_fails_leaves_no_admin_whose_token_nobody_saw(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="executor"),
        TestClient(application(tmp_path, token=None, people=True, executor="abacus")),
    ):
        pass
    app = application(tmp_path, token=None, people=True)
    with TestClient(app):
        assert whose(app.state.context.access, app.state.context.access.fresh).role == "admin"
