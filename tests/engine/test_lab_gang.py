"""Jobs on the hosts of a lab: exact as anywhere, every byte over a shaped link, and no host left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.gang.gang import Gang
from engine.lab import INTERFACE, namespace, owner
from tests.jobs import distance, job, prepare, reference, succeed
from tests.labs import needs_lab
from tests.traffic import counted_bytes, declared_bytes, links

pytestmark = pytest.mark.usefixtures("gang_lane")


def ours() -> list[str]:
    """Namespaces of the labs that this process owns."""
    return [name for name in namespace.names() if f"-{os.getpid()}." in name]


def test_p3_on_four_hosts_is_exact_and_its_bytes_cross_the_links(tmp_path: Path) -> None:
    needs_lab()
    spec = job(strategy={"name": "p3"}, cluster={"workers": 4}, network={"hosts": 4, "rate": "500Mbit"})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 4)) < 1e-6
    assert counted_bytes(run) == declared_bytes(run)
    found = links(run)
    assert set(found) == {(party, INTERFACE) for party in range(4)}
    assert all(one.counted.total() > one.of_layers > 0 for one in found.values()), "headers, too"
    assert ours() == []


def test_ddp_on_four_hosts_is_exact_and_the_kernel_counts_its_bytes(tmp_path: Path) -> None:
    needs_lab()
    spec = job(
        strategy={"name": "ddp"},
        cluster={"workers": 4},
        network={"hosts": 4, "host_rates": ["500Mbit", "1Gbit", "500Mbit", "1Gbit"]},
    )
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 4)) < 1e-6
    of_layers = 2 * 2 * run.launch.model.parameter_bytes * 3 // 4 * run.summary()["steps"]
    for key, one in links(run).items():
        assert one.said.by_size, key
        assert one.counted.total() > one.of_layers == of_layers, key


def test_parties_on_one_host_share_its_link_and_what_stays_there_is_on_none(tmp_path: Path) -> None:
    needs_lab()
    spec = job(strategy={"name": "p3"}, cluster={"workers": 4}, network={"hosts": 2, "rate": "500Mbit"})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 4)) < 1e-6
    declared = declared_bytes(run)
    assert counted_bytes(run) == declared
    assert not {(0, 2), (2, 0), (1, 3), (3, 1)} & {key[:2] for key in declared}
    found = links(run)
    assert set(found) == {(0, INTERFACE), (1, INTERFACE), (2, "transport"), (3, "transport")}
    for (party, _), one in found.items():
        assert one.of_layers == sum(size for key, size in declared.items() if party in key[:2])
    assert (
        found[0, INTERFACE].counted.total() > found[0, INTERFACE].of_layers + found[2, "transport"].of_layers
    )


def test_a_gang_that_fails_or_is_stopped_leaves_no_hosts_and_one_without_its_lab_says_so(
    tmp_path: Path,
) -> None:
    needs_lab()
    spec = job(
        strategy={"name": "p3"}, cluster={"workers": 2}, network={"hosts": 2}, training={"steps": 100_000}
    )
    stopped = Gang(prepare(spec, tmp_path / "stopped"))
    stopped.start()
    assert len(ours()) == 3
    assert all("-0-test-" in name for name in ours()), "named after the run"
    stopped.stop()
    assert ours() == []
    failed = Gang(prepare(spec, tmp_path / "failed"))
    failed.start()
    os.kill(failed.pids["worker 1"], 9)
    end = failed.wait(60)
    assert end is not None
    assert (end.status, end.party) == ("failed", "worker 1")
    assert ours() == []
    robbed = Gang(prepare(spec, tmp_path / "robbed"))
    robbed.start()
    switch = next(name for name in ours() if name.endswith("-sw"))
    owner.remove([switch])
    end = robbed.wait(60)
    assert end is not None
    assert end.status == "failed"
    assert "lost every link" in end.reason
    assert switch in end.reason
    assert ours() == []


def test_a_slow_port_carries_no_shard(tmp_path: Path) -> None:
    """Exact as ever, and what travels is what was declared."""
    needs_lab()
    network = {"hosts": 3, "host_rates": ["100Mbit", "1Gbit", "300Mbit"]}
    spec = job(strategy={"name": "p3"}, cluster={"workers": 3}, network=network, training={"steps": 3})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 3)) < 1e-6
    declared = declared_bytes(run)
    assert counted_bytes(run) == declared
    by_host = [sum(size for key, size in declared.items() if host in key[:2]) for host in range(3)]
    assert by_host[0] == 2 * 3 * run.launch.model.parameter_bytes, "its own gradients and their answers"
    assert by_host[0] < min(by_host[1:])


OTHERS = (
    "native-allreduce",
    "ring-allreduce",
    "tree-allreduce",
    "parameter-server",
    "late-multiply",
    "hybrid",
    "fsdp",
)


@pytest.mark.parametrize("strategy", OTHERS)
def test_other_exchanges_run_on_unequal_hosts(strategy: str, tmp_path: Path) -> None:
    needs_lab()
    network = {"hosts": 3, "host_rates": ["100Mbit", "1Gbit", "300Mbit"]}
    spec = job(strategy={"name": strategy}, cluster={"workers": 3}, network=network, training={"steps": 3})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 3)) < 1e-6
    for key, one in links(run).items():
        assert one.said.by_size == (strategy in {"native-allreduce", "fsdp"}), key
        assert all(one.layers[d] and one.layers[d].total() < one.counted[d] for d in one.counted), key
