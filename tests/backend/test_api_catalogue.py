"""Catalogues: complete, described, and without torch."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.races.spec import RECOMMENDED
from backend.services import catalogue
from engine.lab import permitted
from engine.plan.plan import AXES
from engine.plan.words import WORDS
from engine.profile import DEVICES
from engine.strategies import STRATEGIES
from engine.telemetry.definitions import DEFINITIONS
from tests.backend.conftest import CPU_DEVICES
from tests.backend.job_specs import job_spec
from tests.databases import url_of


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
    assert {name for name, entry in found.items() if entry["recommended"]} == set(RECOMMENDED)


def test_a_device_to_rehearse_is_a_choice(api: TestClient) -> None:
    schema = api.get("/api/v1/schema/job").json()
    device = schema["$defs"]["RehearsalSpec"]["properties"]["device"]
    assert device["default"] in device["enum"]
    assert device["enum"] == [entry.name for entry in DEVICES]


def test_whether_a_lab_can_be_made_is_said_with_the_reason(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.get("/api/v1/lab").json()["permitted"] == (permitted() is None)
    monkeypatch.setenv("PATH", "")
    answer = api.get("/api/v1/lab").json()
    assert not answer["permitted"]
    assert "iproute2" in answer["why_not"]


def test_words_are_explained_metrics_by_their_one_definition(api: TestClient) -> None:
    words = {word["name"]: word for word in api.get("/api/v1/words").json()}
    assert {name: word["text"] for name, word in words.items() if word["metric"]} == DEFINITIONS
    assert {"exposed wait", "unit", "version", "software-limited"} <= set(words)
    assert len(words) == len(DEFINITIONS) + len(WORDS), "no word is explained twice"


def test_axes_show_what_is_not_built_yet(api: TestClient) -> None:
    axes = api.get("/api/v1/axes").json()
    assert [axis["name"] for axis in axes] == [axis.name for axis in AXES]
    values = [value for axis in axes for value in axis["values"]]
    assert all(value["available"] == (value["missing"] is None) for value in values)
    assert any(value["available"] for value in values)
    options = {value["name"]: value["options_schema"].get("properties", {}) for value in values}
    assert options["int8"]["block"]["default"] == 256
    assert options["one-bit"]["block"]["description"]
    assert options["fp16"] == options["ring-allreduce"] == {}


def test_schemas_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 parses the source of one class at a time, and a page asks for several catalogues at once."""
    inside, together = [0], [0]

    class Adapter:
        def __init__(self, kind: type) -> None:
            self.kind = kind

        def json_schema(self) -> dict[str, Any]:
            inside[0] += 1
            together[0] = max(together[0], inside[0])
            started.wait(0.2)  # the others come while this one is at it
            inside[0] -= 1
            return {"properties": {}}

    monkeypatch.setattr(catalogue, "TypeAdapter", Adapter)
    started = threading.Event()
    kinds = [type(f"Kind{number}", (), {}) for number in range(4)]
    threads = [threading.Thread(target=catalogue.schema_of, args=(kind,), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == [1]


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
    data_dir = folder / "data"
    settings = Settings(
        data_dir=data_dir, database_url=url_of(data_dir), scheduler=False, frontend_dir=folder / "dist"
    )
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        answer = client.get("/jobs")
        assert answer.status_code == 503
        assert "npm run build" in answer.text
    assets = folder / "dist" / "assets"
    assets.mkdir(parents=True)
    (folder / "dist" / "index.html").write_text("<title>built</title>")
    (assets / "page-1a.js").write_bytes(script := b"let built = true;\n" * 1000)
    (assets / "page-1a.js.gz").write_bytes(packed := gzip.compress(script))
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        assert "built" in client.get("/jobs/anything", headers={"Accept": "text/html"}).text
        for accepted, sent in (("gzip, br", packed), ("br", script)):
            answer = client.get("/assets/page-1a.js", headers={"Accept-Encoding": accepted})
            assert answer.content == script
            assert int(answer.headers["content-length"]) == len(sent)
            assert answer.headers["content-type"].startswith("text/javascript")
            assert "immutable" in answer.headers["cache-control"]
        again = {"If-None-Match": answer.headers["etag"], "Accept-Encoding": "br"}
        assert client.get("/assets/page-1a.js", headers=again).status_code == 304
        for gone in ("gone.js", "page-1a.js.gz"):
            assert client.get(f"/assets/{gone}").status_code == 404
        assert client.get("/api/v1/nothing").headers["content-type"] == "application/problem+json"


def test_the_server_starts_without_torch_and_scipy() -> None:
    """Torch it never loads, SciPy when the first interval of a mean is asked for."""
    loads = "import sys, backend.app, backend.cli.serve; backend.app.create_app()"
    program = f"{loads}; assert not {{'torch', 'scipy'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_commands_that_ask_a_server_load_none_of_its_packages() -> None:
    server = ("alembic", "fastapi", "sqlalchemy", "starlette", "uvicorn")
    program = f"import sys, backend.cli.main; assert not set(sys.modules) & set({server})"
    subprocess.run([sys.executable, "-c", program], check=True)
