"""What a job's parties say of their links: which there are, how fast each may be, and what was counted on it."""

from __future__ import annotations

import fcntl
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UserError
from engine.lab import INTERFACE
from engine.plan.job import NetworkSpec
from engine.telemetry import spool
from engine.telemetry.batch import LinkInfo, decode
from engine.telemetry.events import ALL_LAYERS
from engine.telemetry.recorder import TRANSPORT
from engine.telemetry.sampler import interface_of, interface_rate_bps
from tests.jobs import Run, job, succeed
from tests.labs import needs_lab

HERE = socket.gethostname()


def links(run: Run) -> dict[tuple[int, str], tuple[LinkInfo, int]]:
    """By party and interface: what was said last, and the bytes that were counted there, both directions together."""
    found: dict[tuple[int, str], tuple[LinkInfo, int]] = {}
    for reader in spool.parties(run.launch.spool):
        for sequence in reader.sequences():
            body = reader.read(sequence)
            assert body is not None
            batch = decode(body)
            for index, link in enumerate(batch.links):
                rows = batch.table("bins")
                own = rows[(rows["link"] == index) & (rows["layer"] == ALL_LAYERS)]
                before = found.get((reader.party, link.interface), (link, 0))[1]
                found[reader.party, link.interface] = (link, before + int(own["bytes"].sum()))
    return found


def link(interface: str, rate: int | None, source: str, *, shared: bool = False) -> LinkInfo:
    return LinkInfo(interface=interface, host=HERE, rate_bps=rate, rate_source=source, shared=shared)


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("network", "rate", "source"),
    [
        ({}, None, "unknown"),
        ({"rate": "500Mbit"}, 500_000_000, "shaped"),
        ({"declared_rate": "10Gbit"}, 10**10, "declared"),
    ],
)
def test_a_link_has_the_rate_that_somebody_knows(
    network: dict[str, Any], rate: int | None, source: str, tmp_path: Path
) -> None:
    run = succeed(job(strategy={"name": "p3"}, cluster={"workers": 2}, network=network), tmp_path)
    found = links(run)
    machine = link("lo", None, "unknown", shared=True)
    assert {key: said for key, (said, _) in found.items()} == {
        (0, TRANSPORT): link(TRANSPORT, rate, source),
        (1, TRANSPORT): link(TRANSPORT, rate, source),
        (0, "lo"): machine,
    }, "the first party speaks for the machine, whose loopback has no rate"
    counted = {key: size for key, (_, size) in found.items()}
    assert counted[0, "lo"] > counted[0, TRANSPORT] > 0, "the kernel counts headers, too"


@pytest.mark.usefixtures("gang_lane")
def test_what_native_collectives_move_shows_on_the_machines_interface(tmp_path: Path) -> None:
    run = succeed(job(strategy={"name": "ddp"}, cluster={"workers": 2}), tmp_path)
    found = links(run)
    least = 2 * run.launch.model.parameter_bytes * run.summary()["steps"]
    assert found[0, "lo"][1] > 2 * least, "both workers send as much as they receive, and lo counts both"
    assert found[0, TRANSPORT][1] + found[1, TRANSPORT][1] < least


@pytest.mark.usefixtures("gang_lane")
def test_a_labs_interface_is_the_jobs_alone(tmp_path: Path) -> None:
    needs_lab()
    network = {"hosts": 2, "host_rates": ["500Mbit", "1Gbit"]}
    found = links(succeed(job(strategy={"name": "p3"}, cluster={"workers": 2}, network=network), tmp_path))
    assert {(key, said.rate_bps, said.rate_source, said.shared) for key, (said, _) in found.items()} == {
        ((0, INTERFACE), 500_000_000, "shaped", False),
        ((1, INTERFACE), 10**9, "shaped", False),
    }


def test_only_hardware_has_a_rate_of_its_own(tmp_path: Path) -> None:
    """A veth says 10 Gbit/s and moves what the processor can."""
    for name, speed, made_of in (
        ("eno1", "25000", "device"), ("bond0", "50000", "bonding"), ("veth0", "10000", None), ("eno2", "-1", "device")
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(f"{speed}\n")
        if made_of:
            (tmp_path / name / made_of).mkdir()
    assert interface_rate_bps("eno1", tmp_path) == 25 * 10**9
    assert interface_rate_bps("bond0", tmp_path) == 50 * 10**9
    for name in ("veth0", "eno2", "gone"):
        assert interface_rate_bps(name, tmp_path) is None
    assert interface_rate_bps("lo") is None


def test_the_interface_of_an_address_is_found() -> None:
    assert interface_of("127.0.0.1") == interface_of("127.0.1.1") == "lo"
    assert interface_of("203.0.113.7") is None, "reserved for documents: nobody has it"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
            except OSError:  # it has no address
                continue
            assert interface_of(socket.inet_ntoa(answer[20:24])) == name


@pytest.mark.parametrize("other", [{"rate": "1Gbit"}, {"hosts": 2}])
def test_a_rate_is_declared_only_where_nothing_else_says_it(other: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="say themselves how fast the network is"):
        NetworkSpec(declared_rate="10Gbit", **other)
    assert NetworkSpec(declared_rate="10Gbit").declared_rate_bps == 10**10
    with pytest.raises(UserError, match="declared_rate"):
        NetworkSpec(declared_rate="fast")
