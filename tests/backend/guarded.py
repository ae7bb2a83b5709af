"""A server that asks who one is, and who comes to it: what the tests of access stand on."""

from __future__ import annotations

import time
from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy.orm import Session

from backend.access.rights import Role
from backend.app import create_app
from backend.db import Database, models, uuid7
from backend.settings import Settings
from tests.backend.job_specs import JSON
from tests.databases import url_of

TOKEN = "Gr3en-eggs_and.ham"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


def application(data_dir: Path, token: str | None = TOKEN, **more: object) -> FastAPI:
    given = {"database_url": url_of(data_dir), "token": token, **more}
    settings = Settings(data_dir=data_dir, cpu_devices=2, scheduler=False, **given)  # type: ignore[arg-type]
    return create_app(settings)


def browser(app: FastAPI, address: str = "192.0.2.1", url: str = "http://127.0.0.1:8000") -> TestClient:
    """Somebody at `address`, with a cookie jar of their own. The application runs already."""
    return TestClient(app, base_url=url, client=(address, 50_000))


def sign_in(client: TestClient, token: str = TOKEN) -> str:
    """The session's cookie, as `name=value`."""
    answer = client.post("/api/v1/session", json={"token": token})
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


def refused(answer: Response, status: int = 401) -> str:
    """The detail of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
    problem = answer.json()
    assert TOKEN not in answer.text
    return str(problem["detail"])


def admin(app: FastAPI) -> TestClient:
    """Who shows the server's own token."""
    return TestClient(app, base_url="http://127.0.0.1:8000", headers={**JSON, **WITH_TOKEN})


def let_in(app: FastAPI, name: str, role: Role, scope: Role | None = None) -> str:
    """A token of a user of that name, who is let in where they are not."""
    client = admin(app)
    if client.post("/api/v1/users", json={"name": name, "role": role}).status_code == 409:
        assert client.patch(f"/api/v1/users/{name}", json={"role": role}).status_code == 200
    made = client.post("/api/v1/tokens", json={"name": "a test's", "user": name, "scope": scope})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


def who_shows(app: FastAPI, token: str) -> TestClient:
    """A program with that token."""
    headers = {**JSON, "Authorization": f"Bearer {token}"}
    return TestClient(app, base_url="http://127.0.0.1:8000", headers=headers)


def add_job(database: Database, owner: str | None) -> str:
    """The id of a job that has ended, of that user."""
    row = models.Job(
        id=uuid7(), name="a job", owner=owner, spec={}, state="failed", created_unix_ns=time.time_ns()
    )
    return _add(database, row)


def add_race(database: Database, owner: str | None) -> str:
    """The same of a race."""
    row = models.Race(
        id=uuid7(), name="a race", owner=owner, spec={}, state="failed", created_unix_ns=time.time_ns()
    )
    return _add(database, row)


def _add(database: Database, row: models.Job | models.Race) -> str:
    def write(session: Session) -> None:
        session.add(row)

    database.writer.run(write)
    return row.id
