"""Payload bytes of a finished job: what its plan declares and what the transport counted."""

from __future__ import annotations

from collections import Counter

from engine.plan.plan import Plan
from engine.plan.traffic import declared, exchanges
from tests.jobs import Run

Bytes = dict[tuple[int, int, int], int]
"""(source party, destination party, layer's forward position) -> bytes over the whole job."""


def declared_bytes(run: Run) -> Bytes:
    """What the plan declares for all steps that exchange, over the network."""
    launch = run.launch
    times = exchanges(launch.plan, run.summary()["steps"])
    index = {layer.name: layer.index for layer in launch.model.layers}
    found: Counter[tuple[int, int, int]] = Counter()
    for transfer in declared(launch.plan, launch.model, launch.job.cluster.workers, launch.job.network.hosts):
        if transfer.wire:
            key = (transfer.source, transfer.destination, index[transfer.layer])
            found[key] += transfer.bytes * times
    return dict(found)


def counted_bytes(run: Run) -> Bytes:
    """What the workers' transports counted for layers between hosts, alike on both sides.

    Dedicated servers leave no summary; all their messages have a worker at the other end.
    """
    sent: Bytes = {}
    received: Bytes = {}
    workers = run.launch.job.cluster.workers
    for rank in range(workers):
        summary = run.summary(rank)
        for key, count in summary["sent_payload_bytes"].items():
            peer, layer = map(int, key.split("/"))
            sent[rank, peer, layer] = count
        for key, count in summary["received_payload_bytes"].items():
            peer, layer = map(int, key.split("/"))
            received[peer, rank, layer] = count
    between_workers = {key for key in sent | received if max(key[:2]) < workers}
    assert {k: v for k, v in sent.items() if k in between_workers} == {
        k: v for k, v in received.items() if k in between_workers
    }
    host = [party.host for party in run.launch.parties]
    return {k: v for k, v in (sent | received).items() if k[2] >= 0 and host[k[0]] != host[k[1]]}


def counted_by_our_transport(run: Run) -> bool:
    """Whether the job's strategy moves its bytes over our own transport (the native backends do not)."""
    plan = run.launch.plan
    return isinstance(plan, Plan) and all(layer.exchange != "native" for layer in plan.layers)
