"""What the transports of a finished job counted."""

from __future__ import annotations

import json
from typing import TypeAlias

from engine.launch import Launch

Bytes: TypeAlias = dict[tuple[int, int, int], int]
"""(source party, destination party, layer's forward position) -> bytes over the whole job."""


def counted_payload(launch: Launch) -> Bytes:
    """Payload of layers between hosts, by the workers' counters. Raises ValueError where both ends of a link differ.

    Dedicated servers and devices leave no summary; all their messages have a worker at the other end.
    """
    sent: Bytes = {}
    received: Bytes = {}
    workers = launch.job.cluster.workers
    for rank in range(workers):
        summary = json.loads(launch.summary(rank).read_text(encoding="utf-8"))
        for key, count in summary["sent_payload_bytes"].items():
            peer, layer = map(int, key.split("/"))
            sent[rank, peer, layer] = count
        for key, count in summary["received_payload_bytes"].items():
            peer, layer = map(int, key.split("/"))
            received[peer, rank, layer] = count
    for key in sorted(sent.keys() | received.keys()):
        if max(key[:2]) < workers and sent.get(key) != received.get(key):
            raise ValueError(f"{key}: {sent.get(key)} bytes were sent, {received.get(key)} received")
    host = [party.host for party in launch.parties]
    return {k: v for k, v in (sent | received).items() if k[2] >= 0 and host[k[0]] != host[k[1]]}
