"""Servers of one PostgreSQL: whom one lets in or sends away comes and goes at the others, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from backend.access.rights import Caller
from backend.db import Database
from backend.db.afar import CHANNEL
from backend.postgres import Cluster
from backend.schemas.people import TokenRequest, UserRequest
from backend.services.access import Access
from backend.services.errors import Unauthorized
from backend.services.known_tokens import CHANGED
from backend.services.people import People
from backend.settings import Settings
from tests.backend.executor_attempts import until
from tests.backend.guarded import TOKEN, admin, application, let_in, who_shows


@pytest.fixture
def new_server(postgres: Cluster) -> Iterator[Callable[[], tuple[Access, People]]]:
    """What one more server of a database knows of its people."""
    url = postgres.new_schema()
    opened: list[tuple[Database, Access]] = []

    def make() -> tuple[Access, People]:
        database = Database(url)
        access = Access(database, Settings(people=True, token=TOKEN))  # type: ignore[arg-type]
        opened.append((database, access))
        access.watch.start()
        return access, People(database, access)

    yield make
    for database, access in opened:
        access.close()
        database.close()


def admitted(access: Access, token: str) -> Caller | None:
    try:
        return access.by_token(token.encode(), None)
    except Unauthorized:
        return None


def test_who_is_let_in_or_sent_away_at_one_server_is_so_at_the_others(
    new_server: Callable[[], tuple[Access, People]],
) -> None:
    (a, people), (b, _) = new_server(), new_server()
    boss = admitted(a, TOKEN)
    assert boss is not None
    people.add(UserRequest(name="ada"))
    made = [people.make(boss, TokenRequest(name=name, user="ada")) for name in ("kept", "lost")]
    kept, lost = made[0].token, made[1].token
    for token in (kept, lost):
        until(lambda token=token: admitted(b, token), "the other server knows the token")
    cookie, _ = a.sign_in(lost, None)
    until(lambda: b.by_session(cookie), "it knows the session")
    people.change("ada", "viewer")
    until(lambda: b.by_token(kept.encode(), None).role == "viewer" or None, "it knows the role")
    people.revoke(boss, made[1].id)
    until(lambda: admitted(b, lost) is None or None, "a revoked token opens nothing there")
    assert b.by_session(cookie) is None
    cookie, _ = b.sign_in(kept, None)
    until(lambda: a.by_session(cookie), "the first knows the second's session")
    a.sign_out(cookie)
    until(lambda: b.by_session(cookie) is None or None, "who signs out is out everywhere")
    people.remove("ada")
    until(lambda: admitted(b, kept) is None or None, "who was sent away is so everywhere")
    assert admitted(b, TOKEN) is not None


def test_a_message_that_makes_no_sense_does_not_deafen_a_server(
    new_server: Callable[[], tuple[Access, People]],
) -> None:
    """Whoever reaches the database may send one on any channel, without a right to any table."""
    (a, people), (b, _) = new_server(), new_server()
    boss = admitted(a, TOKEN)
    assert boss is not None
    say = text(f"SELECT pg_notify({CHANNEL}, :said)")
    for said in ("", "strange", "strange job:", "strange job:x", f"strange {CHANGED}"):
        a._database.writer.run(lambda session, said=said: session.execute(say, {"said": said}))
    token = people.make(boss, TokenRequest(name="x")).token
    until(lambda: admitted(b, token), "the other server still hears")


def test_a_token_that_is_revoked_at_one_server_is_so_at_the_other(tmp_path: Path, postgres: Cluster) -> None:
    url = postgres.new_schema()
    a, b = (application(tmp_path / name, database_url=url) for name in "ab")
    with TestClient(a), TestClient(b):
        token = let_in(a, "ada", "member")
        ada = who_shows(b, token)
        until(lambda: ada.get("/api/v1/words").status_code == 200, "the other server knows her")
        assert admin(a).delete("/api/v1/users/ada").status_code == 204
        until(lambda: ada.get("/api/v1/words").status_code == 401, "she was sent away there, too")
