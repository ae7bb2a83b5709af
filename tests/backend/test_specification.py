"""A job's specification as text: what was set, or everything, and both make the same job again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import backend
from engine.plan.documents import dump_yaml, load_file, load_object
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, only_set, to_plain
from tests.backend.job_specs import job_spec, submit

TEMPLATES = sorted((Path(backend.__file__).parent / "templates").glob("*.yaml"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_what_was_set_makes_the_same_job(path: Path) -> None:
    spec = load_file(JobSpec, path)
    short = only_set(spec)
    assert from_plain(JobSpec, load_object(dump_yaml(short), "text")) == spec
    assert len(dump_yaml(short)) < len(dump_yaml(to_plain(spec)))


def test_what_has_its_default_is_left_out() -> None:
    plain = {
        "name": "a job",
        "model": {"name": "mlp"},
        "data": {"name": "digits"},
        "training": {"steps": 20},
    }
    spec = from_plain(JobSpec, plain)
    assert only_set(spec) == plain
    wider = replace(spec, cluster=replace(spec.cluster, workers=spec.cluster.workers + 1))
    assert only_set(wider) == plain | {"cluster": {"workers": spec.cluster.workers + 1}}


def test_a_jobs_specification_is_text_that_can_be_submitted_again(api: TestClient) -> None:
    job = submit(api, "written")
    path = f"/api/v1/jobs/{job['id']}/specification"
    short = api.get(path)
    assert short.status_code == 200, short.text
    assert short.headers["content-type"].startswith("text/plain")
    assert load_object(short.text, "text") == only_set(from_plain(JobSpec, job_spec("written")))
    assert api.get(path, params={"whole": True, "form": "json"}).json() == job["spec"]
    whole = load_object(api.get(path, params={"whole": True}).text, "text")
    assert whole == job["spec"]
    assert api.get(path, params={"form": "toml"}).status_code == 422
    assert api.get("/api/v1/jobs/nobody/specification").status_code == 404
