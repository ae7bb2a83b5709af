"""The ways to begin are races that can be run as they are, but for what only the person knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.races import demo
from backend.races.field import cells, job
from backend.races.spec import RECOMMENDED, RaceSpec
from backend.races.starts import Start, starts
from engine.lab import permitted
from engine.plan.serde import from_plain, to_plain

OWN = {"model": {"entrypoint": "net:build", "directory": "/home/me"}, "data": {"name": "digits"}}


def race(start: Start, **known: Any) -> RaceSpec:
    asked = {"job": {**start.job, **known}, "members": start.members, "rounds": start.rounds}
    return from_plain(RaceSpec, to_plain(asked))


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no lab"])
def test_every_start_is_a_race(lab: bool) -> None:
    found = {start.name: start for start in starts(lab=lab)}
    assert list(found) == ["cluster", "own", "digits"]
    for name, start in found.items():
        spec = race(start, **(OWN if name == "own" else {}))
        assert len(spec.members) > 1
        assert all(job(spec, cell).cluster.workers > 1 for cell in cells(spec))
    same = replace(demo.race(lab=lab), name=None)
    named = replace(same, job=replace(same.job, name=found["cluster"].job["name"]))
    assert race(found["cluster"]) == named, "the page begins with the race that the demo runs"
    assert found["own"].members == RaceSpec(job=race(found["digits"]).job).members
    assert [member.strategy for member in found["own"].members] == list(RECOMMENDED)


def test_where_a_lab_is_permitted_every_worker_has_a_host_so_that_ddp_keeps_to_the_rate() -> None:
    for lab in (True, False):
        for start in starts(lab=lab)[:2]:
            spec = race(start, **OWN)
            hosts = spec.job.network.hosts
            assert hosts == (spec.job.cluster.workers if lab else None)
    members = [{member.strategy for member in starts(lab=lab)[0].members} for lab in (True, False)]
    assert members[0] - members[1] == {"ddp"}, "at a rate without a lab it cannot run"


def test_the_page_is_told_of_them_by_what_this_machine_permits(api: TestClient) -> None:
    listed = api.get("/api/v1/starts").json()
    assert [entry["name"] for entry in listed] == ["cluster", "own", "digits"]
    assert (listed[1]["job"]["network"]["hosts"] is None) == (permitted() is not None)
    assert all(entry["title"] and entry["summary"] for entry in listed)
    assert [entry["rounds"] for entry in listed] == [4, 4, 4]
