"""A message on its way lets more urgent ones in between, and every byte still lands where it belongs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from engine.transport import Header, Pacer, ProtocolError
from engine.transport.message import HEADER_BYTES, Outgoing, Start, decode
from tests.engine.transport_parties import WAIT_S, Parties, connected

NAMES = ("worker 0", "worker 1")
RATE_BPS = 16_000_000
"""500 kB take a quarter of a second."""
LARGE, SMALL = 500_000, 10_000


def send(parties: Parties, unit: int, size: int, priority: int) -> None:
    header = Header(kind=1, origin=0, unit=unit, layer=unit, priority=priority, payload_bytes=size)
    parties.endpoints[0].send(1, header, [content(unit, size)])


def content(unit: int, size: int) -> bytes:
    return np.random.default_rng(unit).integers(0, 256, size, dtype=np.uint8).tobytes()


def wait_until_under_way(parties: Parties, unit: int) -> None:
    """Some of the unit's bytes have come, not all."""
    deadline = time.monotonic() + WAIT_S
    while not (come := parties.endpoints[1].counters.snapshot().received_payload.get((0, unit), 0)):
        assert time.monotonic() < deadline, f"nothing of unit {unit} came"
        time.sleep(0.001)
    assert come < LARGE


@pytest.mark.parametrize(
    ("priorities", "order"),
    [((5, 1), [1, 0]), ((5, 5), [0, 1]), ((1, 5), [0, 1]), ((0, -1), [0, 1])],
    ids=["more urgent", "equal", "less urgent", "first come, first served"],
)
def test_only_what_is_more_urgent_interrupts(
    tmp_path: Path, priorities: tuple[int, int], order: list[int]
) -> None:
    with connected(NAMES, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS)) as parties:
        send(parties, 0, LARGE, priorities[0])
        wait_until_under_way(parties, 0)
        send(parties, 1, SMALL, priorities[1])
        record = parties.records[1]
        record.wait(lambda: len(record.handled) == 2)
    assert record.received_units == order
    assert [payload for _, payload in record.handled] == [content(u, (LARGE, SMALL)[u]) for u in order]


def test_an_interruption_is_interrupted(tmp_path: Path) -> None:
    """The most urgent ends first, then the one that it held up, then the one that that one held up."""
    with connected(NAMES, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS)) as parties:
        for unit, size, priority in ((0, LARGE, 9), (1, LARGE, 5)):
            send(parties, unit, size, priority)
            wait_until_under_way(parties, unit)
        send(parties, 2, SMALL, 1)
        record = parties.records[1]
        record.wait(lambda: len(record.handled) == 3)
    assert record.received_units == [2, 1, 0]
    assert {header.unit: payload for header, payload in record.handled} == {
        0: content(0, LARGE), 1: content(1, LARGE), 2: content(2, SMALL),
    }  # fmt: skip


@pytest.mark.parametrize(
    "options", [{}, {"credit_bytes": 1, "backlog_bytes": 0}], ids=["usual", "least credit"]
)
def test_nothing_is_lost_however_they_meet(options: dict[str, int]) -> None:
    """Sizes and priorities at random, without a limit, also where credit lets one message at a time go."""
    generator = np.random.default_rng(3)
    count = 150
    sizes = generator.choice([0, 1, 1000, 64 * 1024, 64 * 1024 + 1, 300_000], count)
    with connected(NAMES, **options) as parties:
        for unit, size in enumerate(sizes):
            send(parties, unit, int(size), int(generator.integers(0, 5)))
        record = parties.records[1]
        record.wait(lambda: len(record.handled) == count)
    for header, payload in record.handled:
        size = int(sizes[header.unit])
        assert payload == (content(header.unit, size) if size else None)
    sent, received = (endpoint.counters.snapshot() for endpoint in parties.endpoints)
    assert received.received_payload_bytes() == sent.sent_payload_bytes() == sum(sizes)


def test_the_headers_between_fragments_say_how_long_they_are() -> None:
    header = Header(kind=1, origin=0, priority=3, payload_bytes=100_000, meta=b"who")
    message = Outgoing(header, [bytes(60_000), bytes(40_000)])
    message.cut(64 * 1024)
    first = b"".join(message.next_views(10**6))
    assert decode(first[:HEADER_BYTES]) == Start(header._replace(meta=b""), 3, 64 * 1024)
    assert len(first) == HEADER_BYTES + 3 + 64 * 1024
    assert not message.interruptible_now
    assert message.advance(len(first)) == 64 * 1024
    assert message.interruptible_now
    message.go_on(64 * 1024)
    rest = b"".join(message.next_views(10**6))
    assert decode(rest[:HEADER_BYTES]) == 64 * 1024
    assert message.advance(len(rest)) == 100_000 - 64 * 1024
    assert message.left_bytes == 0
    with pytest.raises(ProtocolError, match="out of step"):
        decode(bytes(HEADER_BYTES))
