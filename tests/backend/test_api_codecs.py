"""From which rate of the links down each codec would save time for a job, over the API."""

from __future__ import annotations

from fastapi.testclient import TestClient

from engine.axes.codec import CODEC
from tests.backend.job_specs import job_spec

PATH = "/api/v1/plans/codecs"


def test_every_codec_is_answered_for_and_refusals_are_a_plans(api: TestClient) -> None:
    spec = job_spec(strategy={"name": "p3", "options": {"codec": "int8"}}, cluster={"workers": 2})
    answer = api.post(PATH, json=spec)
    assert answer.status_code == 200, answer.text
    found = {one["codec"]: one for one in answer.json()["codecs"]}
    assert set(found) == {row.name for row in CODEC if row.available and "as-is" not in row.traits}
    assert [name for name, one in found.items() if one["mine"]] == ["int8"]
    assert found["int8"]["seconds"] > 0
    assert found["int8"]["below_bps"] > 0
    assert "int8 (this job's)" in answer.json()["text"]
    assert "one core of this machine" in answer.json()["text"]
    for changes, says in (
        ({"strategy": {"name": "ddp"}, "cluster": {"workers": 2}}, "has no codec"),
        ({"training": {"steps": 0}}, "greater than zero"),
    ):
        refused = api.post(PATH, json={**spec, **changes})
        assert refused.status_code == 422
        assert says in refused.text
