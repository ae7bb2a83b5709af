"""Where a new job begins: templates of ours, and files that a person opens."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

from backend.templates import FOLDER
from engine.plan.documents import load_file
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from tests.backend.job_specs import job_spec
from tests.engine.test_plan_documents import BOMBS

BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""387 million ones in nine lines."""


def test_every_template_is_a_job_that_is_complete_in_itself(api: TestClient) -> None:
    listed = api.get("/api/v1/templates").json()
    assert [entry["name"] for entry in listed] == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    for entry in listed:
        spec = load_file(JobSpec, FOLDER / f"{entry['name']}.yaml")
        assert from_plain(JobSpec, entry["spec"]) == spec
        assert spec.name == entry["name"]
        assert entry["summary"].startswith("A ")
        assert "#" not in entry["summary"]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (json.dumps(job_spec()), job_spec()),
        (
            "name: x # said\nstratgy: {lr: 1e-3}\noverrides: &o [{kind: linear}]\nagain: *o",
            {
                "name": "x",
                "stratgy": {"lr": 0.001},
                "overrides": [{"kind": "linear"}],
                "again": [{"kind": "linear"}],
            },
        ),
    ],
    ids=["JSON", "YAML"],
)
def test_a_file_is_read_as_it_is_written(api: TestClient, text: str, spec: dict) -> None:
    answer = api.post("/api/v1/templates/read", json={"text": text})
    assert answer.json() == {"spec": spec}


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("name: x\nmodel: [1", "", "line 2, column"),
        ("{name: x}}", "", "line 1, column 10"),
        ("name: x\n\tmodel: y", "", "line 2, column 1"),
        ("- a list", "", "must hold one object"),
        ("", "", "must hold one object"),
        ("a\x01b", "", "neither YAML nor JSON"),
        ("a\0b", "text", "holds a NUL character"),
        ("data: {1: 2}", "data", "no name of a field"),
        ("training: {steps: 2026-01-01}", "training.steps", "none of JSON's values"),
        ("training: [1, .nan]", "training.1", "none of JSON's values"),
        ("name: !!binary aGFsbG8=", "name", "none of JSON's values"),
        ('name: "\\ud800"', "name", "none of JSON's values"),
        ("a: &a [*a]", "", "more than 10,000 values"),
        (BOMB, "", "more than 10,000 values"),
        (BOMBS["merges"][0], "", "more than 10,000 values"),
        (BOMBS["many values"][0], "", "more than 10,000 values"),
        (BOMBS["deep lists"][0], "", "nested deeper than 64 levels"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(
    api: TestClient, text: str, field: str, rule: str
) -> None:
    answer = api.post("/api/v1/templates/read", json={"text": text})
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert rule in error["rule"]
    assert "\n" not in error["rule"]
    assert error["remedy"]
