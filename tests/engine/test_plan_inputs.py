"""Where a job's data are prepared: what the job may say, and what of it the plan has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.errors import UserError
from engine.plan.inputs import MOST_PROCESSES, Input
from engine.plan.plan import Plan
from engine.plan.serde import from_plain, to_plain
from engine.preview import text
from engine.strategies import build_plan
from tests.jobs import describe
from tests.jobs import job as trained
from tests.plans import described, job


@pytest.mark.parametrize(
    ("given", "field", "rule"),
    [
        ({"where": "gpu"}, "where", "no such value of the axis input.where"),
        ({"where": "processes", "processes": 0}, "processes", "must be at least 1"),
        ({"where": "processes", "processes": MOST_PROCESSES + 1}, "processes", "must be at most 64"),
        ({"processes": 2}, "processes", "where cpu has none: a setting without effect"),
        ({"where": "device", "processes": 2}, "processes", "where device has none"),
        ({"prefetch": -1}, "prefetch", "must be from 0 to 64"),
        ({"where": "processes", "prefetch": 65}, "prefetch", "must be from 0 to 64"),
        ({"pinned": "yes"}, "pinned", ""),
        ({"workers": 2}, "workers", ""),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(given: dict[str, Any], field: str, rule: str) -> None:
    plain = to_plain(job()) | {"input": given}
    with pytest.raises(UserError) as caught:
        from_plain(type(job()), plain)
    assert caught.value.field == f"input.{field}"
    assert rule in caught.value.rule


def test_processes_are_counted_where_there_are_some() -> None:
    counts = [Input(where="processes").process_count, Input(where="processes", processes=5).process_count]
    assert counts == [2, 5]
    assert Input().process_count == Input(where="device").process_count == 0


@pytest.mark.parametrize("strategy", ["p3", "ddp", "fsdp"])
def test_the_plan_has_what_the_job_says_and_shows_it(strategy: str) -> None:
    given = Input(where="processes", processes=3, prefetch=4)
    spec = replace(job(strategy, 2), input=given)
    plan = build_plan(spec, described("cnn"))
    assert not isinstance(plan, Plan) or plan.input == given
    assert "data: prepared in 3 processes of each worker, 4 batches ahead" in text(
        plan, described("cnn"), spec
    )
    assert "data:" not in text(plan, described("cnn"), job(strategy, 2))


@pytest.mark.parametrize("strategy", ["p3", "ddp"])
@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_data_that_come_ready_made_have_nothing_for_a_device(name: str, strategy: str) -> None:
    spec = trained(data={"name": name}, strategy={"name": strategy}, cluster={"workers": 2})
    on_device = replace(spec, input=Input(where="device"))
    description = describe(spec)
    assert description.staged is False
    with pytest.raises(UserError, match="nothing that a device could do") as caught:
        build_plan(on_device, description)
    assert caught.value.field == "input.where"
    for unknown in (True, None):  # a description of an older version does not say it
        assert build_plan(on_device, replace(description, staged=unknown))


def test_a_rehearsal_says_that_it_reads_no_data() -> None:
    plain = to_plain(job("p3", 2)) | {"fidelity": "rehearse", "input": {"where": "processes"}}
    plan = build_plan(from_plain(type(job()), plain), described("cnn"))
    assert "input has no effect: a rehearsal reads no data." in plan.warnings
    plan = build_plan(from_plain(type(job()), plain | {"input": {}}), described("cnn"))
    assert not any("input" in warning for warning in plan.warnings)
