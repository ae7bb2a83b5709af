"""Byte counters on both sides, per peer, direction and layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A copy of all counters at one moment. Keys are (peer, layer); sizes in bytes since the start."""

    sent_payload: dict[tuple[int, int], int] = field(default_factory=dict)
    """Payload bytes given to the kernel; layer -1 collects what belongs to no layer."""
    received_payload: dict[tuple[int, int], int] = field(default_factory=dict)
    """Payload bytes taken from the kernel."""
    sent_overhead: dict[int, int] = field(default_factory=dict)
    """Per peer: headers, meta and control frames sent."""
    received_overhead: dict[int, int] = field(default_factory=dict)
    """Per peer: headers, meta and control frames received."""
    local_payload: dict[int, int] = field(default_factory=dict)
    """Per layer: payload handed over inside the process; never on any wire."""

    def sent_payload_bytes(self) -> int:
        """Payload sent to all peers."""
        return sum(self.sent_payload.values())

    def received_payload_bytes(self) -> int:
        """Payload received from all peers."""
        return sum(self.received_payload.values())


class Counters:
    """The live counters of one endpoint, advanced chunk by chunk, so that a sample every 10 ms is true.

    `sent` and `received` belong to the I/O thread and take no lock: a dictionary is copied in one piece.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._sent: dict[tuple[int, int], int] = {}
        self._received: dict[tuple[int, int], int] = {}
        self._sent_overhead: dict[int, int] = {}
        self._received_overhead: dict[int, int] = {}
        self._local: dict[int, int] = {}
        self.wire: Callable[[], Traffic] | None = None
        """Who counts what passes on the wire, where that is not this."""

    def sent(self, peer: int, layer: int, payload_bytes: int, overhead_bytes: int) -> None:
        """A chunk was given to the kernel."""
        if payload_bytes:
            self._sent[peer, layer] = self._sent.get((peer, layer), 0) + payload_bytes
        if overhead_bytes:
            self._sent_overhead[peer] = self._sent_overhead.get(peer, 0) + overhead_bytes

    def received(self, peer: int, layer: int, payload_bytes: int, overhead_bytes: int) -> None:
        """A chunk was taken from the kernel."""
        if payload_bytes:
            self._received[peer, layer] = self._received.get((peer, layer), 0) + payload_bytes
        if overhead_bytes:
            self._received_overhead[peer] = self._received_overhead.get(peer, 0) + overhead_bytes

    def local(self, layer: int, payload_bytes: int) -> None:
        """A message was handed over inside the process."""
        with self._lock:
            self._local[layer] = self._local.get(layer, 0) + payload_bytes

    def snapshot(self) -> Traffic:
        """A consistent copy; costs one copy of five small dictionaries."""
        if self.wire is not None:
            traffic = self.wire()
            with self._lock:
                return replace(traffic, local_payload=dict(self._local))
        with self._lock:
            return Traffic(
                sent_payload=dict(self._sent),
                received_payload=dict(self._received),
                sent_overhead=dict(self._sent_overhead),
                received_overhead=dict(self._received_overhead),
                local_payload=dict(self._local),
            )
