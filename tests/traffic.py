"""Bytes of a finished job: what its plan declares, what the transport counted, and what went over its links."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from engine.benchmarks.harness.wire import Bytes, counted_payload
from engine.plan.plan import Plan
from engine.simulate.declared import declared
from engine.telemetry import spool
from engine.telemetry.batch import LinkInfo, decode
from engine.telemetry.events import ALL_LAYERS, Direction
from tests.jobs import Run


def declared_bytes(run: Run) -> Bytes:
    """What the plan declares for all of the job, over the network."""
    launch = run.launch
    index = {layer.name: layer.index for layer in launch.model.layers}
    found: Counter[tuple[int, int, int]] = Counter()
    cluster, hosts, steps = launch.job.cluster, launch.job.network.hosts, run.summary()["steps"]
    for transfer in declared(launch.plan, launch.model, cluster.workers, hosts, steps=steps):
        if transfer.wire:
            found[transfer.source, transfer.destination, index[transfer.layer]] += transfer.bytes
    return dict(found)


def counted_bytes(run: Run) -> Bytes:
    """What the workers' transports counted for layers between hosts, alike on both sides."""
    return counted_payload(run.launch)


def assert_declared(run: Run, layers: set[int] | None = None) -> None:
    """What the transport counted is what the plan declares (of these `layers`), and not more where messages differ in
    length."""
    plan, index = run.launch.plan, {layer.name: layer.index for layer in run.launch.model.layers}
    assert isinstance(plan, Plan)
    counted = counted_bytes(run)
    expected = {key: size for key, size in declared_bytes(run).items() if layers is None or key[2] in layers}
    varying = {index[layer.layer] for layer in plan.layers if not layer.exact}
    assert counted.keys() == expected.keys()
    assert {key: size for key, size in counted.items() if key[2] not in varying} == {
        key: size for key, size in expected.items() if key[2] not in varying
    }
    assert all(0 < counted[key] <= size for key, size in expected.items() if key[2] in varying)


def counted_by_our_transport(run: Run) -> bool:
    """Whether the job's strategy moves its bytes over our own transport (the native backends do not)."""
    plan = run.launch.plan
    return isinstance(plan, Plan) and all(layer.exchange != "native" for layer in plan.layers)


@dataclass
class LinkTally:
    """What was said last of one link, and what went over it, by direction."""

    said: LinkInfo
    layers: dict[Direction, Counter[int]] = field(default_factory=lambda: {d: Counter() for d in Direction})
    """Bytes by layer."""
    counted: Counter[Direction] = field(default_factory=Counter)
    """All bytes."""

    @property
    def of_layers(self) -> int:
        """Bytes of all layers, both directions together."""
        return sum(found.total() for found in self.layers.values())


def links(run: Run) -> dict[tuple[int, str], LinkTally]:
    """By party and interface."""
    found: dict[tuple[int, str], LinkTally] = {}
    for reader in spool.parties(run.launch.spool):
        for sequence in reader.sequences():
            body = reader.read(sequence)
            assert body is not None
            batch = decode(body)
            for said in batch.links:
                found.setdefault((reader.party, said.interface), LinkTally(said)).said = said
            for row in batch.table("bins"):
                tally = found[reader.party, batch.links[row["link"]].interface]
                direction, layer, size = Direction(row["direction"]), int(row["layer"]), int(row["bytes"])
                if layer == ALL_LAYERS:
                    tally.counted[direction] += size
                else:
                    tally.layers[direction][layer] += size
    return found
