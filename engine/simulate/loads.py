"""Loads: what one step of a plan moves through the busiest port, and encodes, for who asks where a codec pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from engine.plan.cluster import parties
from engine.plan.description import ModelDescription
from engine.plan.paying import CodecCost, Load
from engine.plan.plan import Plan
from engine.simulate.declared import Limit, crossing, exchanged


def load_of(
    plan: Plan,
    model: ModelDescription,
    workers: int,
    hosts: int | None,
    cost: CodecCost,
    *,
    most: int,
    check: Callable[[], None] = lambda: None,
) -> Load:
    """Of a step that exchanges. `cost`: by which the party is chosen whose work with codecs takes longest. `most` and
    `check`: see `wire_bytes_by_layer`."""
    at = [party.host for party in parties(plan, workers, hosts)]
    count = Limit(most, workers, check).count
    ports: Counter[tuple[str, str]] = Counter()
    encoded: Counter[int] = Counter()
    decoded: Counter[int] = Counter()

    def moves(source: int, destination: int, size: int) -> None:
        if at[source] != at[destination]:
            ports[at[source], "out"] += size
            ports[at[destination], "in"] += size

    for _, source, destination, size in crossing(plan, model, workers, 1, count):
        moves(source, destination, size)
    for _, played in exchanged(plan, model, workers, None, count):
        for (source, destination, _), size in played.moved.items():
            moves(source, destination, size)
        encoded.update(played.encoded)
        decoded.update(played.decoded)
    busiest = max(
        range(len(at)), key=lambda party: encoded[party] * cost.encode_ns + decoded[party] * cost.decode_ns
    )
    return Load(port_bytes=max(ports.values(), default=0), encoded=encoded[busiest], decoded=decoded[busiest])
