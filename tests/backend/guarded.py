"""A server with a token, and who comes to it: what the tests of access stand on."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response

from backend.app import create_app
from backend.settings import Settings
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
