"""Counters are read by the sampler while messages pass: what it sees is true at every moment."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from engine.transport import Counters, Header, Traffic
from tests.engine.transport_parties import WEIGHTS, Parties, connected

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1")
LAYERS, SIZE = 400, 700
"""So many that the tables of the counters grow several times while they are read."""
PAUSE_S = 0.0002
"""Leaves the interpreter to those who send and handle."""


class Reader:
    """Reads again and again, in a thread of its own, and notes what cannot be."""

    def __init__(self, counters: Counters) -> None:
        self.wrong: list[str] = []
        self.read = 0
        self._counters = counters
        self._ends = threading.Event()
        self._before = Traffic()
        self._thread = threading.Thread(target=self._loop, daemon=True)  # a test that fails does not end it
        self._thread.start()

    def end(self) -> Traffic:
        """What was read last."""
        self._ends.set()
        self._thread.join()
        return self._before

    def _loop(self) -> None:
        while not self._ends.wait(PAUSE_S):
            now = self._counters.snapshot()
            for what in ("sent_payload", "received_payload", "sent_overhead", "received_overhead"):
                self._compare(what, getattr(self._before, what), getattr(now, what))
            self._before = now
            self.read += 1

    def _compare(self, what: str, before: Mapping[object, int], now: Mapping[object, int]) -> None:
        self.wrong += [f"{what} of {key}: {size}, then {now.get(key)}" for key, size in before.items()
                       if now.get(key, -1) < size]  # fmt: skip
        if what.endswith("payload"):
            self.wrong += [f"{what} of {key}: {size}, one message too much" for key, size in now.items()
                           if size > 2 * SIZE]  # fmt: skip


def send(parties: Parties, layers: range) -> None:
    for layer in layers:
        for origin in (0, 1):
            header = Header(kind=1, origin=origin, layer=layer, payload_bytes=SIZE, meta=b"12345")
            parties.endpoints[origin].send(1 - origin, header, [bytes(SIZE)])


@pytest.mark.parametrize("where", WEIGHTS)
def test_what_is_read_meanwhile_only_grows_and_never_beyond_what_was_sent(where: str) -> None:
    with connected(NAMES, weigh=WEIGHTS[where]) as parties:
        readers = [Reader(endpoint.counters) for endpoint in parties.endpoints]
        try:
            send(parties, range(LAYERS // 2))
            for record in parties.records:
                record.wait(lambda record=record: len(record.handled) >= LAYERS // 4)
            amid = [endpoint.counters.snapshot().received_payload_bytes() for endpoint in parties.endpoints]
            send(parties, range(LAYERS // 2, LAYERS))
            send(parties, range(LAYERS))
            for record in parties.records:
                record.wait(lambda record=record: len(record.handled) == 2 * LAYERS)
        finally:
            last = [reader.end() for reader in readers]
        ends = [endpoint.counters.snapshot() for endpoint in parties.endpoints]
    total = 2 * LAYERS * SIZE
    assert all(LAYERS // 4 * SIZE <= size <= LAYERS // 2 * SIZE for size in amid)
    assert [reader.wrong for reader in readers] == [[], []]
    assert all(reader.read > 1 for reader in readers)
    assert all(traffic.received_payload_bytes() <= total for traffic in last)
    for index, traffic in enumerate(ends):
        expected = {(1 - index, layer): 2 * SIZE for layer in range(LAYERS)}
        assert traffic.sent_payload == traffic.received_payload == expected
