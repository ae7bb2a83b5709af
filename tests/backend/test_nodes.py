"""Nodes: what a server tells of its machine, and what is known of all of them."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.cli.nodes import _row
from backend.db import Database
from backend.db.models import Attempt, Job, Maintenance, NodeRow
from backend.scheduler import changes, nodes, snapshot
from backend.scheduler.alone import Alone
from backend.scheduler.decide import Device, Inventory
from backend.scheduler.nodes import Interface, Told, address_of, interfaces_here
from backend.scheduler.place import Place
from backend.schemas.maintenance import MaintenanceRequest
from backend.services.maintenance import Maintenances
from backend.services.nodes import Nodes
from engine.errors import UserError
from tests.backend.job_specs import JSON, submit
from tests.backend.posted_run import start_attempt

S = 10**9
DEVICES = Inventory(
    devices=(Device(id="cpu:0", kind="cpu", name="CPU slot 0"), Device(id="cuda:0", kind="cuda", name="GPU"))
)
HERE = Place(home="a", view="kernel x")
BESIDE = Place(home="b", view="kernel y")
AWAY = Place(home="c", view="another z")


def test_a_node_is_reached_at_hardware_before_what_is_virtual_and_never_at_its_loopback() -> None:
    lo = Interface(name="lo", address="127.0.0.1", rate_bps=None)
    bridge = Interface(name="br0", address="10.77.0.1", rate_bps=None)
    plugged = Interface(name="eno1", address="192.0.2.7", rate_bps=25 * 10**9)
    bare = Interface(name="eno2", address=None, rate_bps=10**9)
    assert address_of([bare, bridge, lo, plugged]) == "192.0.2.7"
    assert address_of([bare, bridge, lo]) == "10.77.0.1"
    assert address_of([bare, lo]) is None
    found = {one.name: one for one in interfaces_here()}
    assert found["lo"] == lo


@pytest.fixture
def cluster(small_database: Database, tmp_path: Path) -> Alone:
    """A server on a machine with another one, and a machine that has been away for a minute."""
    member = Alone(small_database, tmp_path, "here", DEVICES)
    member.place = HERE
    told = Told(name="left", address="192.0.2.1", interfaces=(), devices=DEVICES.devices)
    now = time.time_ns()

    def write(session: Session) -> None:
        for place, name, seen in ((HERE, "left", now), (BESIDE, "left", now), (AWAY, "right", now - 60 * S)):
            nodes.tell(session, place, f"server {place.home}", replace(told, name=name), seen)
        job = Job(id="runs", name="runs", spec={"cluster": {}}, state="running", created_unix_ns=now)
        common = {"parties": [], "token_sha256": "", "directory": "", "created_unix_ns": now}
        for number, (place, device) in enumerate(
            ((BESIDE, "cpu:0"), (BESIDE, "cuda:0"), (AWAY, "cpu:0")), start=1
        ):
            job.attempts.append(
                Attempt(
                    state="running",
                    number=number,
                    devices=[device],
                    home=place.home,
                    view=place.view,
                    **common,
                )
            )
        session.add(job)

    small_database.writer.run(write)
    return member


def test_servers_of_one_machine_are_one_node_and_one_that_is_silent_is_away(
    small_database: Database, cluster: Alone
) -> None:
    left, right = Nodes(small_database, cluster).all()
    assert (left.name, left.state, left.servers) == ("left", "up", ["server a", "server b"])
    assert (right.name, right.state) == ("right", "away")
    assert datetime.now(UTC) - right.seen_at > timedelta(seconds=59)
    held = [(one.server, one.name, one.job_name) for one in left.devices]
    assert sorted(held) == [  # slots are each server's own, and there is one GPU
        ("server a", "cpu:0", None),
        ("server a", "cuda:0", "runs"),
        ("server b", "cpu:0", "runs"),
    ]
    assert (left.cpu_slots, left.free) == (2, {"cpu": 1, "cuda": 0})
    number, name, address, state, *_, names = _row(right)
    assert (number, name, address, state[:11], names) == ("3", "right", "192.0.2.1", "away, seen ", "'runs'")
    assert (right.free, [one.job_name for one in right.devices]) == ({"cpu": 0, "cuda": 0}, ["runs", None])
    more = Told.of_this_machine(
        Inventory(devices=(*DEVICES.devices, replace(DEVICES.devices[0], id="cpu:1")))
    )
    for ago_s, free in ((0, 2), (60, 1)):  # of a server that is away no slot is free
        at = time.time_ns() - ago_s * S
        small_database.writer.run(lambda session, at=at: nodes.tell(session, BESIDE, "b", more, at))  # type: ignore[misc]
        assert Nodes(small_database, cluster).all()[0].free["cpu"] == free
    small_database.writer.run(
        lambda session: nodes.tell(session, HERE, "again", Told.of_this_machine(DEVICES), S)
    )
    with small_database.read() as session:
        assert len(session.scalars(select(NodeRow)).all()) == 3, "a place has one row"
    month = 31 * 86_400 * S
    told = Told.of_this_machine(DEVICES)
    small_database.writer.run(
        lambda session: nodes.tell(session, HERE, "again", told, time.time_ns() + month)
    )
    assert [node.servers for node in Nodes(small_database, cluster).all()] == [["again"]]


def test_a_node_is_drained_as_a_whole_wherever_it_is_and_comes_back_by_itself(
    small_database: Database, cluster: Alone
) -> None:
    made = Maintenances(small_database, DEVICES, cluster)
    for asked, said in (
        (MaintenanceRequest(node="up"), r"no such node. Known: left \(1\), right \(3\)"),
        (MaintenanceRequest(node="left", devices=["cpu:0"]), "a node is drained as a whole"),
        (MaintenanceRequest(ends_at=datetime(2000, 1, 1)), "is not after it begins"),
    ):
        with pytest.raises(UserError, match=said):
            made.begin(asked, None)
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    left = made.begin(MaintenanceRequest(node="1", ends_at=ends), "ada")
    assert (left.node, left.devices, left.ends_at, left.who) == ("left", None, ends, "ada")
    right = made.begin(MaintenanceRequest(node="right"), None)
    assert [[one.job_name for one in each.holders] for each in (left, right)] == [["runs"], ["runs"]]
    now, over = time.time_ns(), round(ends.timestamp() * 1e9) + 10**6

    def drained(place: Place, at: int) -> set[str]:
        with small_database.read() as session:
            return set(snapshot.drained(session, place, DEVICES, at).begins)

    for place in (HERE, BESIDE, AWAY):
        assert drained(place, now) == {"cpu:0", "cuda:0"}, "also the slots of the server beside"
    assert (drained(HERE, over), drained(AWAY, over)) == (set(), {"cpu:0", "cuda:0"})
    with small_database.read() as session:
        day, hour = now + 86_400 * S, 3_600 * S  # by a clock that is a day ahead
        ahead = snapshot.drained(session, HERE, DEVICES, day, day - now)
        assert (ahead.begins["cpu:0"] >= day - hour, ahead.ends[0] > day) == (True, True)
        assert not snapshot.maintenance_is_over(session, now)
        assert snapshot.maintenance_is_over(session, over)
    small_database.writer.run(lambda session: changes.end_maintenance(session, over))
    with small_database.read() as session:
        assert session.scalars(select(Maintenance.id)).all() == [right.id]


def test_nodes_are_listed_and_drained_through_the_api(api: TestClient, tmp_path: Path) -> None:
    runs = submit(api, "holds", cluster={"workers": 1})["id"]
    start_attempt(api, runs, tmp_path, devices={"cpu:0": "a processor"})
    assert api.get("/api/v1/nodes").json() == [], "no scheduler runs here, so nobody places jobs"
    api.app.state.context.nodes._membership.start()  # type: ignore[attr-defined]
    (node,) = api.get("/api/v1/nodes").json()
    slots = sum(device["kind"] == "cpu" for device in node["devices"])
    assert (node["state"], node["cpu_slots"], node["free"]["cpu"]) == ("up", slots, slots - 1)
    assert node["devices"] == api.get("/api/v1/devices").json()
    assert node["devices"][0]["job_id"] == runs
    assert "lo" in [interface["name"] for interface in node["interfaces"]]
    made = api.post("/api/v1/maintenance", json={"node": node["name"], "ends_at": "2000-01-01"})
    assert made.status_code == 422
    made = api.post("/api/v1/maintenance", json={"node": node["name"]}).json()
    (node,) = api.get("/api/v1/nodes").json()
    assert set(node["free"].values()) == {0}
    assert api.delete(f"/api/v1/maintenance/{made['id']}", headers=JSON).status_code == 204
    entries = api.get("/api/v1/audit", params={"limit": 2}).json()["items"]
    assert [entry["action"] for entry in entries] == ["end_maintenance", "begin_maintenance"]
    assert {entry["details"]["devices"] for entry in entries} == {f"all devices of {node['name']}"}
    again = api.post("/api/v1/maintenance", json={"node": node["name"]}).json()
    twice = api.post("/api/v1/maintenance", json={"node": node["name"]})
    assert twice.status_code == 422
    assert f"maintenance {again['id']} keeps that out of use already. End maintenance" in twice.text
