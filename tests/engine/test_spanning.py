"""A gang whose parties live on several hosts: what is refused, and that it trains what it trains on one machine."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from backend.chaos.ports import reserved
from engine.errors import UserError
from engine.lab import Lab, Link
from engine.launch import Launch
from engine.launch import prepare as prepared
from engine.transport import mesh
from tests.jobs import RESIDENTS, Run, describe, job, plan_of, succeed
from tests.labs import needs_lab

NEAR = ("127.0.0.1", "127.0.0.2")
FAR = ("10.0.0.1", "10.0.0.2")
P3 = {"strategy": {"name": "p3"}, "cluster": {"workers": 2}}


def launched(directory: Path, addresses: tuple[str, ...], port: int | None, **changes: Any) -> Launch:
    spec = job(**{**P3, **changes})
    return prepared(spec, plan_of(spec), describe(spec), directory, addresses=addresses, port=port)


@pytest.mark.parametrize(
    ("addresses", "port", "changes", "refused"),
    [
        ((), 5000, {}, "port = 5000: parties of one machine meet over a file. Leave it out"),
        (NEAR[:1], 5000, {}, "1 addresses for 2 parties. Give one for each"),
        (NEAR, None, {}, "port = None: the others find the first party there, at 127.0.0.1. Give a port"),
        (("node-1", "node-2"), 5000, {}, "addresses.0 = 'node-1': .* Give an IPv4 or IPv6 address"),
        (("10.0.0.1", "::"), 5000, {}, "addresses.1 = '::': nobody is reached there"),
        (FAR, 5000, {}, "network.trusted = False: parties at 10.0.0.1, 10.0.0.2 would .*trusted: true"),
        (NEAR, 5000, {"network": {"hosts": 2}}, "network.hosts = 2: a lab's hosts are on one machine"),
        (NEAR, 5000, {"strategy": {"name": "ddp"}}, "strategy = 'ddp': PyTorch's own collectives"),
        (NEAR, 5000, {"checkpoint": {"every_steps": 5}}, "checkpoint = .* a folder that all parties see"),
        (
            NEAR,
            5000,
            {"cluster": {"workers": 2, "worker_loss": "go-on"}, "strategy": {"name": "decentralized-async"}},
            "cluster.worker_loss = 'go-on': who was lost",
        ),
    ],
)
def test_what_cannot_span_hosts_is_refused(
    addresses: tuple[str, ...], port: int | None, changes: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=refused):
        launched(tmp_path, addresses, port, **changes)


def test_a_launch_says_the_same_on_every_host(tmp_path: Path) -> None:
    spec = {**P3, "cluster": {"workers": 3}, "network": {"trusted": True}}
    made = launched(tmp_path / "a", (FAR[0], FAR[1], FAR[0]), 5000, **spec)
    told = Launch.from_dict(json.loads(json.dumps(made.to_dict())), tmp_path / "a")
    assert told == made
    assert told.rendezvous == "tcp://10.0.0.1:5000"
    assert [party.host for party in told.parties] == ["host0", "host1", "host0"]
    assert [party.index for party in told.parties_at(FAR[0])] == [0, 2]


def test_an_address_of_another_host_and_a_port_in_use_are_refused() -> None:
    with pytest.raises(UserError, match=r"address = '192.0.2.1': a party binds an address of its own host"):
        mesh.listen("192.0.2.1", 0)
    with mesh.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port = {port}: another program listens on this port"):
            mesh.listen("127.0.0.1", port)


@pytest.mark.usefixtures("gang_lane")
def test_gangs_at_two_addresses_share_no_folder_and_train_what_one_does(tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(reserved())
        launches = [launched(tmp_path / name, NEAR, port) for name in ("a", "b")]
        launches[0].write()
        launches[1].write(launches[0].token())
        gangs = [RESIDENTS.gang(each, at) for each, at in zip(launches, NEAR, strict=True)]
        for gang in gangs:
            stack.callback(gang.stop)
            gang.start()
        ends = [gang.wait(120) for gang in gangs]
    runs = [Run(launch=each, end=end) for each, end in zip(launches, ends, strict=True) if end is not None]
    assert [run.end.status for run in runs] == ["succeeded"] * 2, [run.logs() for run in runs]
    local = succeed(job(**P3), tmp_path / "local").state
    assert runs[0].state.keys() == local.keys()
    assert all(torch.equal(runs[0].state[name], value) for name, value in local.items())
    assert [sorted(path.name for path in run.launch.result.iterdir()) for run in runs] == [
        ["model.pt", "summary.json"],
        ["summary-1.json"],
    ], "each host has what its own party has left, and nothing of the other's"


@pytest.mark.soak
@pytest.mark.usefixtures("gang_lane")
def test_two_hosts_with_private_files_train_what_one_machine_does(tmp_path: Path) -> None:
    """Each host is a network namespace behind a shaped link, and a mount namespace in which the test's folder, which
    is where its temporary files go, too, is its own."""
    needs_lab()
    spec = {**P3, "network": {"trusted": True}}
    local = succeed(job(**spec), tmp_path / "local").state
    seen = tmp_path / "hosts"
    seen.mkdir()
    with Lab.create("spanning", [Link(rate_bps=500_000_000)] * 2) as lab:
        addresses = tuple(lab.address(host) for host in range(2))
        made = launched(tmp_path / "launch", addresses, 29500, **spec)
        told = json.dumps({"launch": made.to_dict(), "token": os.urandom(32).hex()}).encode()
        script = 'mount -t tmpfs none "$1" && exec "$2" -m tests.engine.spanning_host "$1" "$3"'
        inside, private = ("ip", "netns", "exec"), ("unshare", "--mount", "sh", "-c", script, "sh")
        hosts = [
            subprocess.Popen(
                [*inside, f"{lab.stem}-h{host}", *private, str(seen), sys.executable, address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(seen), "PYTHONPATH": str(Path.cwd())},
            )
            for host, address in enumerate(addresses)
        ]
        try:
            for host in hosts:
                assert host.stdin is not None
                host.stdin.write(told)
                host.stdin.close()
            said = [json.loads(host.stdout.read()) for host in hosts if host.stdout is not None]
        finally:
            for host in hosts:
                host.kill()
                host.wait()
    assert [each["status"] for each in said] == ["succeeded"] * 2, said
    assert [each["files"] for each in said] == [["model.pt", "summary.json"], ["summary-1.json"]]
    found = torch.load(io.BytesIO(base64.b64decode(said[0]["model"])), weights_only=True)
    assert found.keys() == local.keys()
    assert all(torch.equal(found[name], value) for name, value in local.items())
    assert list(seen.iterdir()) == [], "nothing of it lies where both could have seen it"
