"""One of several hosts that share nothing: `python -m tests.backend.ray_host FOLDER HEAD ADDRESS HOSTS` is a node of a
Ray cluster whose head is at HEAD, with everything of its own in FOLDER.

The head's host runs a server, too. It submits the job that standard input holds, once all HOSTS are there, and says on
standard output how it ended, how much each link carried, what was trained, and what became of one whose code the others
do not have.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from backend.chaos.ray_nodes import RAY
from backend.client import ApiError, Client
from backend.executors.ray_cluster import RayCluster
from backend.executors.ray_files import RayFiles
from backend.executors.ray_node import FOLDER

PORT = 6379
SERVED = 8000
LIMIT_S = 300.0
MINE = "from torch import nn\ndef build(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
"""A model whose file no other host has."""


def start_ray(
    folder: Path, head: str, address: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """The node's Ray."""
    where = (f"--address={head}:{PORT}",)
    if address == head:
        where = ("--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder / 'r'}")
    sizes = ("--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block")
    command = [*RAY, "start", f"--node-ip-address={address}", *sizes, *where]
    with (folder / "ray.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def until_nodes(cluster: RayCluster, hosts: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            if sum(node["Alive"] for node in cluster.ray.nodes()) == hosts:
                return
        except Exception:  # Ray has not started yet
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


def serve(folder: Path, head: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    settings = {
        "data_dir": folder / "data",
        "executor": "ray",
        "ray_address": f"{head}:{PORT}",
        "host": head,
        "port": SERVED,
        "insecure": 1,
        "cpu_devices": 4,
    }
    given = {f"TRAINYARD_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "backend.cli.main", "serve"]
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, env={**environment, **given}, stdout=log, stderr=log)


def run(folder: Path, head: str, hosts: int, environment: Mapping[str, str]) -> dict[str, object]:
    """Have the job done, and say what came of it."""
    cluster = RayCluster(f"{head}:{PORT}")
    until_nodes(cluster, hosts)
    server = serve(folder, head, environment)
    try:
        with Client(f"http://{head}:{SERVED}") as client:
            deadline = time.monotonic() + LIMIT_S
            while True:
                try:
                    client.health()
                    break
                except (ApiError, OSError, RuntimeError):
                    assert time.monotonic() < deadline, (folder / "server.log").read_text()
                    time.sleep(0.5)
            spec = json.load(sys.stdin)
            job = client.wait(client.submit(spec).id, timeout_s=LIMIT_S)
            own = folder / "own"
            own.mkdir()
            (own / "mine.py").write_text(MINE)
            mine = {**spec, "model": {"entrypoint": "mine:build", "directory": str(own)}}
            unshared = client.wait(client.submit(mine).id, timeout_s=LIMIT_S)
            (attempt,) = client.attempts(job.id).items
            links = len(client.links(job.id).links)
            files = RayFiles(cluster, str(folder / "data" / "jobs" / job.id / "1"))
            with files.local(None) as local:
                model = local / "result/model.pt"
                kept = base64.b64encode(model.read_bytes()).decode() if model.exists() else None
        return {
            "state": job.state,
            "message": job.message,
            "unshared": unshared.message,
            "sealed": attempt.sealed,
            "links": links,
            "model": kept,
            "log": (folder / "server.log").read_text()[-2000:],
        }
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    folder, head, address, hosts = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    environment = {**os.environ, FOLDER: str(folder / "node"), "TMPDIR": str(folder)}
    os.environ["TMPDIR"] = str(folder)
    node = start_ray(folder, head, address, environment)
    if address != head:
        node.wait()
        return
    try:
        print(json.dumps(run(folder, head, hosts, environment)), flush=True)
    finally:
        node.terminate()
        node.wait()


if __name__ == "__main__":
    main()
