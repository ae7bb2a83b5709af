"""Jobs on the hosts of a lab: exact as anywhere, every byte over a shaped link, and no host left behind."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from engine.lab import INTERFACE, namespace
from engine.runtime.gang import Gang
from engine.telemetry import spool
from engine.telemetry.batch import decode
from engine.telemetry.events import ALL_LAYERS
from tests.jobs import Run, distance, job, prepare, reference, succeed
from tests.labs import needs_lab
from tests.traffic import counted_bytes, declared_bytes

pytestmark = pytest.mark.usefixtures("gang_lane")


def ours() -> list[str]:
    """Namespaces of the labs that this process owns."""
    return [name for name in namespace.names() if f"-{os.getpid()}." in name]


def link_bytes(run: Run) -> tuple[dict[tuple[int, str], int], dict[tuple[int, str], int]]:
    """Per party and link, both directions together: (what the layers account for, what was counted)."""
    layers: defaultdict[tuple[int, str], int] = defaultdict(int)
    counted: defaultdict[tuple[int, str], int] = defaultdict(int)
    for reader in spool.parties(run.launch.spool):
        for sequence in reader.sequences():
            body = reader.read(sequence)
            assert body is not None
            batch = decode(body)
            for row in batch.table("bins"):
                kind = counted if row["layer"] == ALL_LAYERS else layers
                kind[reader.party, batch.links[row["link"]].interface] += int(row["bytes"])
    return dict(layers), dict(counted)


def test_p3_on_four_hosts_is_exact_and_its_bytes_cross_the_links(tmp_path: Path) -> None:
    needs_lab()
    spec = job(strategy={"name": "p3"}, cluster={"workers": 4}, network={"hosts": 4, "rate": "500Mbit"})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 4)) < 1e-6
    assert counted_bytes(run) == declared_bytes(run)
    layers, counted = link_bytes(run)
    assert set(layers) == {(party, INTERFACE) for party in range(4)}
    assert all(counted[key] > layers[key] for key in layers), "the kernel counts headers, too"
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
    layers, counted = link_bytes(run)
    assert layers == {}, "what DDP moves when is its own affair"
    least = 2 * 2 * run.launch.model.parameter_bytes * 3 // 4 * run.summary()["steps"]
    assert all(counted[party, INTERFACE] > least for party in range(4))


def test_parties_on_one_host_share_its_link_and_what_stays_there_is_on_none(tmp_path: Path) -> None:
    needs_lab()
    spec = job(strategy={"name": "p3"}, cluster={"workers": 4}, network={"hosts": 2, "rate": "500Mbit"})
    run = succeed(spec, tmp_path)
    assert distance(run.state, reference(spec, 4)) < 1e-6
    declared = declared_bytes(run)
    assert counted_bytes(run) == declared
    assert not {(0, 2), (2, 0), (1, 3), (3, 1)} & {key[:2] for key in declared}
    layers, counted = link_bytes(run)
    assert set(layers) == {(0, INTERFACE), (1, INTERFACE), (2, "transport"), (3, "transport")}
    for party in range(4):
        link = (party, INTERFACE if party < 2 else "transport")
        assert layers[link] == sum(size for key, size in declared.items() if party in key[:2])
    assert counted[0, INTERFACE] > layers[0, INTERFACE] + layers[2, "transport"]


def test_a_gang_that_fails_or_is_stopped_leaves_no_hosts(tmp_path: Path) -> None:
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
    assert distance(succeed(spec, tmp_path).state, reference(spec, 3)) < 1e-6
