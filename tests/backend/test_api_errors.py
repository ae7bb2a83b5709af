"""Whatever is wrong with a request: a problem that names the field, its value, the rule and the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.backend.job_specs import JSON, job_spec, submit
from tests.labs import needs_lab

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown strategy": ({"strategy": {"name": "p4"}}, "strategy.name", "parameter-server"),
    "unknown strategy option": ({"strategy": {"name": "p3", "options": {"x": 1}}}, "strategy.options.x", "Known"),
    "strategy option of another type": (
        {"strategy": {"name": "p3", "options": {"servers": "two"}}}, "strategy.options.servers", "",
    ),
    "override that matches nothing": (
        {"overrides": [{"kind": "linear", "codec": "fp16"}, {"layers": "fc9", "codec": "fp16"}]},
        "overrides.1.layers", "Use * for any. Known:",
    ),
    "unknown field of an override": ({"overrides": [{"layer": "fc9"}]}, "overrides.0.layer", "'layers'"),
    "override that cannot run": (
        {"overrides": [{"layers": "1", "exchange": "native", "rank": "priority"}]}, "layers.1.order.rank", "Use fifo",
    ),
    "zero workers": ({"cluster": {"workers": 0}}, "cluster.workers", "1 or more"),
    "more workers than devices": ({"cluster": {"workers": 5}}, "cluster.workers", "at most 4"),
    "no CUDA device": ({"cluster": {"device": "cuda"}}, "cluster.device", "cpu"),
    "batch smaller than workers": (
        {"training": {"steps": 1, "global_batch": 1}}, "training.global_batch", "at least 2",
    ),
    "single on two workers": ({"strategy": {"name": "single"}}, "strategy.name", "workers: 1"),
    "native and a paced network": (
        {"strategy": {"name": "ddp"}, "network": {"rate": "10Mbit"}}, "network.rate", "network.rate out",
    ),
    "not a rate": ({"network": {"rate": "fast"}}, "network.rate", "300Mbit"),
    "neither steps nor epochs": ({"training": {"global_batch": 32}}, "training.steps", "one of the two"),
    "unknown model": ({"model": {"name": "llama"}}, "model.name", "resnet-digits"),
    "unknown model option": ({"model": {"name": "mlp", "options": {"depth": 3}}}, "model.options.depth", "hidden"),
    "a network that takes minutes to describe": (
        {"model": {"name": "lstm-lm", "options": {"layers": 100_000}}}, "model.options.layers", "from 1 to 128",
    ),
    "samples that fill the memory": (
        {"data": {"name": "synthetic", "options": {"shape": [9_999, 9_999]}}}, "data.options.shape", "smaller",
    ),
    "unknown data set": ({"data": {"name": "mnist"}}, "data.name", "digits"),
    "model and data that do not fit": ({"model": {"name": "vgg-small"}}, "data", "Choose data of that shape"),
    "unknown optimizer": ({"optimizer": {"name": "sgdd"}}, "optimizer.name", "'sgd'"),
    "unknown field": ({"stratgy": {"name": "p3"}}, "stratgy", "'strategy'"),
    "text for a number": ({"cluster": {"workers": "2"}}, "cluster.workers", "Correct"),
    "missing baseline": ({"baseline": "nobody"}, "baseline", "id of a job"),
    "not built yet": ({"fidelity": "simulate"}, "fidelity", "train"),
    "a priority out of range": ({"priority": 5000}, "priority", "0 is the default"),
    "a rehearsal's efficiency in percent": (
        {"rehearsal": {"efficiency": 60}}, "rehearsal.efficiency", "60 % is 0.6",
    ),
    "a NUL in a name": ({"name": "a\0b"}, "name", "Leave it out"),
    "a NUL deep inside": ({"model": {"entrypoint": "a:b\0", "directory": "."}}, "model.entrypoint", "Leave it out"),
    "no name": ({"name": " "}, "name", "short name"),
}  # fmt: skip


DEEP = '{"name": ' + "[" * 900 + "]" * 900 + "}"


def nested(levels: int, inner: Any = 1) -> Any:
    """Lists in one another."""
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize("path", ["jobs", "plans"])
@pytest.mark.parametrize("case", BAD)
def test_bad_specifications_are_refused(api: TestClient, case: str, path: str) -> None:
    changes, field, remedy = BAD[case]
    answer = api.post(f"/api/v1/{path}", json=job_spec(**changes))
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    (error,) = body["errors"]
    assert error["field"] == field
    assert error["rule"]
    assert remedy in error["remedy"]
    assert (body["status"], body["title"]) == (422, "Invalid input")
    assert error["rule"] in body["detail"]
    assert api.get("/api/v1/health").json()["status"] == "ok"


def test_an_impossible_combination_names_rule_and_remedy(api: TestClient) -> None:
    spec = job_spec(strategy={"name": "p3", "options": {"update": "server"}})
    spec["training"]["clip_norm"] = 1.0
    body = api.post("/api/v1/plans", json=spec).json()
    error = body["errors"][0]
    assert [entry["field"] for entry in body["errors"]] == [
        "layers.1.update",
        "layers.3.update",
        "layers.5.update",
    ]
    assert body["detail"].endswith("(and 2 more)")
    assert "global norm" in error["rule"]
    assert "clip_norm" in error["remedy"]


def test_a_model_that_fails_to_import_gives_its_own_error(api: TestClient, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import nothing_of_this_name\ndef build(): ...\n")
    model = {"entrypoint": "mine:build", "directory": str(tmp_path)}
    answer = api.post("/api/v1/jobs", json=job_spec(model=model))
    assert answer.status_code == 422
    assert "nothing_of_this_name" in answer.json()["detail"]
    assert answer.json()["errors"][0]["field"].startswith("model")


def test_a_models_code_gets_neither_token_nor_the_databases_password(
    api: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_DATABASE_URL", "postgresql://me:secret@nowhere/trainyard")
    monkeypatch.setenv("TRAINYARD_TOKEN", "a-token-of-the-server")
    monkeypatch.setenv("trainyard_token_file", "/run/secrets/token")  # settings are read in any case
    (tmp_path / "mine.py").write_text("import os\nraise RuntimeError(sorted(os.environ))\n")
    model = {"entrypoint": "mine:build", "directory": str(tmp_path)}
    detail = api.post("/api/v1/plans", json=job_spec(model=model)).json()["detail"]
    assert "OMP_NUM_THREADS" in detail
    assert "TRAINYARD_DATABASE_URL" not in detail
    assert "TOKEN" not in detail.upper()


def test_a_directory_that_holds_everything_is_not_searched_to_its_end(
    api: TestClient, tmp_path: Path
) -> None:
    (tmp_path / "nowhere.py").symlink_to(tmp_path / "gone.py")
    for directory in ("/", str(tmp_path)):
        model = {"entrypoint": "mine_of_no_name:build", "directory": directory}
        answer = api.post("/api/v1/plans", json=job_spec(model=model))
        assert answer.status_code == 422
        assert "mine_of_no_name" in answer.json()["detail"]


def test_a_model_is_described_anew_after_it_was_corrected(api: TestClient, tmp_path: Path) -> None:
    model = {"entrypoint": "mine:build", "directory": str(tmp_path)}
    source = "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear({}, 10))\n"
    (tmp_path / "mine.py").write_text(source.format(63))
    assert api.post("/api/v1/plans", json=job_spec(model=model)).status_code == 422
    (tmp_path / "mine.py").write_text(source.format(64) + "# corrected\n")
    plan = api.post("/api/v1/plans", json=job_spec(model=model))
    assert plan.status_code == 200, plan.text
    assert plan.json()["parameters"] == 650


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "",
        b"\xff\xfe",
        r'{"\ud800": 1}',
        r'{"name": "\ud800"}',
        "[1, 2]",
        '"text"',
        "null",
        '{"name": NaN}',
        "[" * 50_000,
        DEEP,
    ],
)
def test_bodies_that_are_no_specification(api: TestClient, text: str | bytes) -> None:
    for path in ("jobs", "attempts/1/seal"):
        answer = api.post(f"/api/v1/{path}", content=text, headers=JSON)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("levels", [62, 200, 700])
@pytest.mark.parametrize("path", ["jobs", "plans", "clone"])
def test_a_body_has_a_greatest_depth(api: TestClient, tmp_path: Path, path: str, levels: int) -> None:
    """Where no type refuses it: options of code that is not ours."""
    model = {"entrypoint": "mine:build", "directory": str(tmp_path), "options": {"x": nested(levels)}}
    answer = post(api, path, {"model": model})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "model.options.x"
    assert error["rule"] == "is nested deeper than 64 levels"


def test_a_body_may_be_as_deep_as_the_limit(api: TestClient, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef build(x):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    model = {"entrypoint": "mine:build", "directory": str(tmp_path), "options": {"x": nested(61)}}
    answer = post(api, "jobs", {"model": model})
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["model"]["options"] == {"x": nested(61)}


@pytest.mark.parametrize("path", ["jobs", "plans", "clone"])
@pytest.mark.parametrize(
    ("changes", "field"),
    [({"name": "a\0b"}, "name"), ({"model": {"name": "mlp", "options": {"x": [["\0"]]}}}, "model.options.x"),
     ({"model": {"name": "mlp", "options": {"\0": 1}}}, "model.options")],
)  # fmt: skip
def test_a_nul_is_refused_wherever_a_body_holds_it(
    api: TestClient, path: str, changes: dict[str, Any], field: str
) -> None:
    answer = post(api, path, changes)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["field"], error["rule"]) == (field, "holds a NUL character")


def post(api: TestClient, path: str, changes: dict[str, Any]) -> Any:
    """The changes as part of a submission or a preview, or made to a job that is cloned."""
    if path == "clone":
        return api.post(f"/api/v1/jobs/{submit(api)['id']}/clone", json=changes)
    return api.post(f"/api/v1/{path}", json=job_spec(**changes))


def test_numbers_that_are_none_are_refused(api: TestClient) -> None:
    text = json.dumps(job_spec(optimizer={"learning_rate": float("nan")}))
    answer = api.post("/api/v1/jobs", content=text, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "optimizer.learning_rate"
    assert answer.json()["errors"][0]["value"] == "nan"


@pytest.mark.parametrize(
    "changes",
    [{"network": {"rate": "x" * 100_000}}, {"cluster": {"workers": "x" * 100_000}}, {"training": ["x"] * 10_000}],
    ids=["by the engine", "by its type", "a list"],
)  # fmt: skip
def test_a_long_value_is_repeated_by_its_beginning(api: TestClient, changes: dict[str, Any]) -> None:
    answer = api.post("/api/v1/plans", json={**job_spec(), **changes})
    assert answer.status_code == 422
    assert "characters)" in answer.json()["errors"][0]["value"]
    assert "characters)" in answer.json()["detail"]
    assert len(answer.content) < 2000


@pytest.mark.parametrize("announced", [True, False])
def test_bodies_that_are_too_large(api: TestClient, announced: bool) -> None:
    body = json.dumps(job_spec("x" * (1 << 20))).encode()
    answer = api.post("/api/v1/jobs", content=body if announced else iter([body]), headers=JSON)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["jobs", "jobs/nobody/logs"])
def test_addresses_hold_no_nul(api: TestClient, path: str) -> None:
    for address in (f"/api/v1/{path}?text=a%00b", f"/api/v1/{path}%00"):
        answer = api.get(address)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert "NUL" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["jobs/nobody", "jobs/nobody/plan", "jobs/nobody/metrics", "jobs/nobody/events", "jobs/nobody/logs",
             "jobs/nobody/summary", "jobs/nobody/figures/loss", "nothing/of/this/name"],
)  # fmt: skip
def test_what_is_not_there(api: TestClient, path: str) -> None:
    answer = api.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "gone"}, "state"),
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"cursor": "!"}, "cursor"),
        ({"cursor": "YWJj"}, "cursor"),
    ],
)
def test_queries_out_of_range(api: TestClient, query: dict[str, Any], field: str) -> None:
    answer = api.get("/api/v1/jobs", params=query)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_names_that_are_not_there_list_the_known_ones(api: TestClient) -> None:
    job = submit(api)["id"]
    figure = api.get(f"/api/v1/jobs/{job}/figures/pie")
    assert figure.status_code == 404
    assert "timeline" in figure.json()["errors"][0]["remedy"]
    backwards = api.get(f"/api/v1/jobs/{job}/figures/timeline", params={"from_ns": 2, "to_ns": 1})
    assert backwards.status_code == 422
    assert backwards.json()["errors"][0]["field"] == "to_ns"
    alone = api.get("/api/v1/race", params={"jobs": job})
    assert alone.status_code == 422
    assert alone.json()["errors"][0]["field"] == "jobs"


def test_hosts_are_refused_where_they_cannot_be_made(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    answer = api.post("/api/v1/jobs", json=job_spec(network={"hosts": 2, "rate": "100Mbit"}))
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["field"], error["value"]) == ("network.hosts", 2)
    assert "ip and tc not found: install iproute2" in error["rule"]
    assert "Leave hosts out" in error["remedy"]


def test_native_collectives_may_run_on_the_limited_links_of_a_lab(api: TestClient) -> None:
    needs_lab()
    spec = job_spec(strategy={"name": "ddp"}, network={"hosts": 2, "rate": "100Mbit"})
    answer = api.post("/api/v1/plans", json=spec)
    assert answer.status_code == 200, answer.text
