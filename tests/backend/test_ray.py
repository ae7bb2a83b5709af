"""Jobs over the nodes of a real Ray cluster, through a real server."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.chaos.ray_nodes import RayNodes
from backend.client import Client, Job
from backend.executors import process
from backend.executors.ray_executor import RayExecutor
from backend.lifecycle import Reason
from engine.lab import Lab, Link
from tests.backend.executor_attempts import ORPHAN_S, until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer
from tests.backend.ray_programs import real_cluster
from tests.labs import needs_lab

pytestmark = pytest.mark.soak
LIMIT_S = 240.0
AWAY_S = 4.0
"""Shorter than Ray takes to give a node up."""
PACKED = {"strategy": {"name": "p3"}, "cluster": {"workers": 4}, "network": {"trusted": True}}
P3 = {**PACKED, "cluster": {"workers": 4, "nodes": "spread"}}


@pytest.fixture(scope="module")
def nodes(server_lane: None) -> Iterator[RayNodes]:
    with real_cluster(2, cpus=4) as made:
        yield made


def serving(nodes: RayNodes, data_dir: Path, **settings: Any) -> LiveServer:
    asked = {"executor": "ray", "ray_address": nodes.address, "cpu_devices": 4}
    return LiveServer(data_dir, anew=True, **{**asked, **settings})


def none_left(nodes: RayNodes) -> None:
    """No process of an attempt is left on any node."""

    def marked() -> list[int]:
        found = []
        for each in process.all_processes():
            try:
                environment = Path(f"/proc/{each.pid}/environ").read_bytes()
            except OSError:
                continue
            if f"{process.MARKER}={nodes.folder}".encode() in environment and each.state != "Z":
                found.append(each.pid)
        return found

    until(lambda: not marked(), "no process of an attempt is left", within_s=ORPHAN_S)


def ended(client: Client, job_id: str) -> Job:
    return client.wait(job_id, timeout_s=LIMIT_S)


def running(client: Client, job_id: str) -> None:
    def look() -> bool:
        job = client.job(job_id)
        assert job.state in {"queued", "placing", "starting", "running"}, job.message
        return job.state == "running"

    until(look, "the job runs", within_s=LIMIT_S)


def model(executor: RayExecutor, data_dir: Path, job_id: str) -> dict[str, torch.Tensor]:
    with executor.files(str(data_dir / "jobs" / job_id / "1")).local(None) as folder:
        found: dict[str, torch.Tensor] = torch.load(folder / "result/model.pt", weights_only=True)
    return found


def test_four_workers_on_two_nodes_train_what_they_train_on_one_machine(
    nodes: RayNodes, tmp_path: Path
) -> None:
    training = {"steps": 20, "global_batch": 32, "deterministic": True}
    spec = job_spec("over nodes", **P3, training=training)
    with serving(nodes, tmp_path / "ray") as server, Client(server.url) as client:
        job = ended(client, client.submit(spec).id)
        assert job.state == "succeeded", job.message
        (attempt,) = client.attempts(job.id).items
        assert attempt.sealed, "all telemetry of both nodes has arrived"
        assert client.links(job.id).links, "bytes were counted"
        assert "worker-3" in {party.replace(" ", "-") for party in attempt.parties}
        found = model(RayExecutor(nodes.address), tmp_path / "ray", job.id)
        client.delete(job.id)
    none_left(nodes)
    assert not list(nodes.folder.glob(f"node-*/{job.id}")), "the job's files on its nodes went with it"
    with LiveServer(tmp_path / "local", anew=True, cpu_devices=4) as server, Client(server.url) as client:
        local = ended(client, client.submit(spec).id)
    folder = tmp_path / "local" / "jobs" / local.id / "1"
    wanted = torch.load(folder / "result/model.pt", weights_only=True)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_a_restarted_server_goes_on_with_an_attempt_and_stops_it(nodes: RayNodes, tmp_path: Path) -> None:
    spec = job_spec("long", **PACKED, training={"steps": 100_000, "global_batch": 32})
    with serving(nodes, tmp_path) as server, Client(server.url) as client:
        job = client.submit(spec)
        running(client, job.id)
        assert len(list(nodes.folder.glob(f"node-*/{job.id}"))) == 1, "all of it is on one node"
        server.process.kill()
    with serving(nodes, tmp_path) as server, Client(server.url) as client:
        running(client, job.id)
        client.cancel(job.id)
        found = ended(client, job.id)
        assert (found.state, found.reason) == ("cancelled", Reason.CANCELLED), found.message
    none_left(nodes)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"network": {}}, "network.trusted = False: Ray's own connections"),
        ({"checkpoint": {"every_steps": 5}}, "a checkpoint lies on one node"),
        (
            {"cluster": {"workers": 4, "threads": 4}},
            "cannot launch on the Ray cluster: the Ray cluster has no room for the gang",
        ),
    ],
)
def test_what_does_not_run_on_a_cluster_is_refused(
    nodes: RayNodes, tmp_path: Path, changes: dict[str, Any], refused: str
) -> None:
    with serving(nodes, tmp_path) as server, Client(server.url) as client:
        job = ended(client, client.submit(job_spec("refused", **{**P3, **changes})).id)
    assert (job.state, job.reason) == ("failed", Reason.LAUNCH_FAILED)
    assert refused in (job.message or "")


def test_a_node_out_of_reach_for_a_while_is_waited_for_and_a_lost_one_ends_the_attempt(
    nodes: RayNodes, tmp_path: Path
) -> None:
    spec = job_spec("loses a node", **P3, training={"steps": 100_000, "global_batch": 32})
    with serving(nodes, tmp_path) as server, Client(server.url) as client:
        job = client.submit(spec)
        running(client, job.id)
        lost = sorted(nodes.nodes)[-1]
        nodes.pause(lost, signal.SIGSTOP)
        time.sleep(AWAY_S)
        nodes.pause(lost, signal.SIGCONT)
        running(client, job.id)
        nodes.kill(lost)
        found = ended(client, job.id)
        assert (found.state, found.reason) == ("failed", Reason.NODE_LOST), found.message
        assert f"node {lost} was lost" in (found.message or "")
    none_left(nodes)


def test_four_hosts_with_private_files_train_what_one_machine_does(server_lane: None, tmp_path: Path) -> None:
    """Each host is a network namespace behind a shaped link, and a mount namespace in which the one folder that
    everything of it lies in is its own."""
    needs_lab()
    training = {"steps": 20, "global_batch": 32, "deterministic": True}
    spec = job_spec("over hosts", **P3, training=training)
    script = 'mount -t tmpfs none "$1" && exec "$2" -m tests.backend.ray_host "$1" "$3" "$4" 4'
    inside, private = (
        ("ip", "netns", "exec"),
        ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"),
    )
    with (
        tempfile.TemporaryDirectory(prefix="ty-") as seen,  # not deep: Ray keeps sockets there
        Lab.create("ray", [Link(rate_bps=500_000_000)] * 4) as lab,
    ):
        hosts = [
            subprocess.Popen(
                [*inside, f"{lab.stem}-h{host}", *private, script, "sh", seen, sys.executable, *at],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            )
            for host in range(4)
            if (at := (lab.address(0), lab.address(host)))
        ]
        try:
            told, _ = hosts[0].communicate(json.dumps(spec).encode(), timeout=LIMIT_S)
            said = json.loads(told)
        finally:
            for host in hosts:
                host.kill()
                host.wait()
        assert list(Path(seen).iterdir()) == [], "nothing of it lies where two could have seen it"
    assert (said["state"], said["sealed"]) == ("succeeded", True), said
    assert said["links"] >= 8, "of each host, in both directions"
    assert "model.directory" in said["unshared"]
    assert "has nothing there, and code and data are not sent to nodes" in said["unshared"]
    found = torch.load(io.BytesIO(base64.b64decode(said["model"])), weights_only=True)
    with LiveServer(tmp_path / "local", anew=True, cpu_devices=4) as server, Client(server.url) as client:
        local = ended(client, client.submit(spec).id)
    wanted = torch.load(tmp_path / "local" / "jobs" / local.id / "1/result/model.pt", weights_only=True)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())
