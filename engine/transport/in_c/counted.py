"""The byte counters of the data plane in C."""

from __future__ import annotations

import ctypes

from engine.transport.counters import Traffic
from engine.transport.in_c.library import Count, Library


def counted(library: Library, core: int | None, peers: int) -> Traffic:
    """The counters of `core`, which has so many peers."""
    most = 256
    while True:
        sent, received = (Count * most)(), (Count * most)()
        overhead, counts = (Count * (2 * peers + 1))(), (ctypes.c_int * 2)()
        library.counters(core, sent, received, overhead, most, counts)
        if max(counts) <= most:
            break
        most = max(counts)
    return Traffic(
        sent_payload={(c.peer, c.layer): c.bytes for c in sent[: counts[0]]},
        received_payload={(c.peer, c.layer): c.bytes for c in received[: counts[1]]},
        sent_overhead={c.peer: c.bytes for c in overhead[0:-1:2] if c.bytes},
        received_overhead={c.peer: c.bytes for c in overhead[1::2] if c.bytes},
    )
