"""Payload bytes of a finished job: what its plan declares and what the transport counted."""

from __future__ import annotations

from collections import Counter

from engine.benchmarks.harness.wire import Bytes, counted_payload
from engine.plan.plan import Plan
from engine.plan.traffic import declared, exchanges
from tests.jobs import Run


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
    """What the workers' transports counted for layers between hosts, alike on both sides."""
    return counted_payload(run.launch)


def counted_by_our_transport(run: Run) -> bool:
    """Whether the job's strategy moves its bytes over our own transport (the native backends do not)."""
    plan = run.launch.plan
    return isinstance(plan, Plan) and all(layer.exchange != "native" for layer in plan.layers)
