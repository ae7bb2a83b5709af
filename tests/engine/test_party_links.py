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
from engine.plan.network import NetworkSpec
from engine.telemetry.batch import LinkInfo
from engine.telemetry.recorder import TRANSPORT
from engine.telemetry.sampler import interface_of, interface_rate_bps
from tests.jobs import job, succeed
from tests.labs import needs_lab
from tests.traffic import links

HERE = socket.gethostname()


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
    assert {key: one.said for key, one in found.items()} == {
        (0, TRANSPORT): link(TRANSPORT, rate, source),
        (1, TRANSPORT): link(TRANSPORT, rate, source),
        (0, "lo"): machine,
    }, "the first party speaks for the machine, whose loopback has no rate"
    machine_total, own_total = (found[0, name].counted.total() for name in ("lo", TRANSPORT))
    assert machine_total > own_total > 0, "the kernel counts headers, too"


@pytest.mark.usefixtures("gang_lane")
def test_a_labs_interface_is_the_jobs_alone(tmp_path: Path) -> None:
    needs_lab()
    network = {"hosts": 2, "host_rates": ["500Mbit", "1Gbit"]}
    found = links(succeed(job(strategy={"name": "p3"}, cluster={"workers": 2}, network=network), tmp_path))
    told = {key: one.said for key, one in found.items()}
    assert {(key, said.rate_bps, said.rate_source, said.shared) for key, said in told.items()} == {
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
