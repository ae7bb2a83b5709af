"""Catalogues: complete, described, and without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from fastapi.testclient import TestClient

from engine.plan.plan import AXES
from engine.strategies import STRATEGIES
from tests.backend.conftest import CPU_DEVICES
from tests.backend.job_specs import job_spec


def undescribed(schema: dict[str, Any]) -> list[str]:
    """Fields of a schema that say nothing about themselves."""
    kinds = {"": schema, **schema.get("$defs", {})}
    return [
        f"{kind}.{name}"
        for kind, content in kinds.items()
        for name, field in content.get("properties", {}).items()
        if not field.get("description")
    ]


def test_the_jobs_schema_describes_every_field(api: TestClient) -> None:
    schema = api.get("/api/v1/schema/job").json()
    assert undescribed(schema) == []
    assert set(job_spec()) <= set(schema["properties"])
    assert set(schema["required"]) == {"name", "model", "data", "training"}


@pytest.mark.parametrize("path", ["strategies", "models", "datasets"])
def test_every_entry_explains_itself_and_its_options(api: TestClient, path: str) -> None:
    entries = api.get(f"/api/v1/{path}").json()
    assert entries
    for entry in entries:
        assert entry["summary"]
        assert undescribed(entry["options_schema"]) == []


def test_strategies_are_those_of_the_engine(api: TestClient) -> None:
    found = {entry["name"]: entry for entry in api.get("/api/v1/strategies").json()}
    assert list(found) == [entry.name for entry in STRATEGIES]
    assert all(entry["loses_when"] and entry["source"] for entry in found.values())
    assert found["p3"]["options_schema"]["properties"]["servers"]["default"] is None


def test_axes_show_what_is_not_built_yet(api: TestClient) -> None:
    axes = api.get("/api/v1/axes").json()
    assert [axis["name"] for axis in axes] == [axis.name for axis in AXES]
    values = [value for axis in axes for value in axis["values"]]
    assert all(value["available"] == (value["missing"] is None) for value in values)
    assert any(value["available"] for value in values)


def test_devices_are_free_at_first(api: TestClient) -> None:
    cpus = [device for device in api.get("/api/v1/devices").json() if device["kind"] == "cpu"]
    assert len(cpus) == CPU_DEVICES
    assert all(device["job_id"] is None for device in cpus)


def test_figures_are_listed(api: TestClient) -> None:
    names = {entry["name"] for entry in api.get("/api/v1/figures").json()}
    assert {"timeline", "loss", "throughput"} <= names


def test_a_server_without_its_page_says_how_to_build_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    from backend.app import create_app  # noqa: PLC0415
    from backend.settings import Settings  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("page")
    settings = Settings(data_dir=folder / "data", scheduler=False, frontend_dir=folder / "dist")
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        answer = client.get("/jobs")
        assert answer.status_code == 503
        assert "npm run build" in answer.text
    (folder / "dist").mkdir()
    (folder / "dist" / "index.html").write_text("<title>built</title>")
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        assert "built" in client.get("/jobs/anything", headers={"Accept": "text/html"}).text
        assert client.get("/api/v1/nothing").headers["content-type"] == "application/problem+json"


def test_the_server_never_loads_torch() -> None:
    program = "import sys, backend.app, backend.cli.serve; backend.app.create_app(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_commands_that_ask_a_server_load_none_of_its_packages() -> None:
    server = ("alembic", "fastapi", "sqlalchemy", "starlette", "uvicorn")
    program = f"import sys, backend.cli.main; assert not set(sys.modules) & set({server})"
    subprocess.run([sys.executable, "-c", program], check=True)
