"""A message on its way lets more urgent ones in between, and every byte still lands where it belongs."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import numpy as np
import pytest

from engine.transport import AttemptClock, Header, Pacer, ProtocolError
from engine.transport.counters import Counters
from engine.transport.credit import SenderCredit
from engine.transport.message import HEADER_BYTES, Outgoing, Start, decode
from engine.transport.observer import NoObserver, Watch
from engine.transport.outbound import Outbox
from tests.engine.transport_parties import WAIT_S, Parties, connected

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1")
RATE_BPS = 4_000_000
"""500 kB take a second: time to do something meanwhile, also on a busy machine."""
LARGE, SMALL = 500_000, 10_000
SIZE, SHORT = 100_000, 1_000
FIRST_FRAGMENT = HEADER_BYTES + 64 * 1024


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
    # As they came whole: of what has come by then, who handles takes the more urgent one first.
    assert list(dict.fromkeys(reversed(record.received_units))) == order[::-1]
    assert {header.unit: payload for header, payload in record.handled} == {
        0: content(0, LARGE), 1: content(1, SMALL),
    }  # fmt: skip


def test_an_interruption_is_interrupted(tmp_path: Path) -> None:
    """The most urgent ends first, then the one that it held up, then the one that that one held up."""
    with connected(NAMES, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS)) as parties:
        for unit, size, priority in ((0, LARGE, 9), (1, LARGE, 5)):
            send(parties, unit, size, priority)
            wait_until_under_way(parties, unit)
        send(parties, 2, SMALL, 1)
        record = parties.records[1]
        record.wait(lambda: len(record.handled) == 3)
    assert record.handled_units == [2, 1, 0]
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


def test_runs_around_an_interruption_are_told_apart(tmp_path: Path) -> None:
    """On both sides, with the bytes that passed in each, and no time in common."""
    with connected(NAMES, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS)) as parties:
        send(parties, 0, LARGE, 5)
        wait_until_under_way(parties, 0)
        send(parties, 1, SMALL, 1)
        parties.records[1].wait(lambda: len(parties.records[1].handled) == 2)
    for runs in (parties.records[0].sent_runs, parties.records[1].received_runs):
        (first, before, start, paused), (second, small, *between), (third, after, resumed, end) = runs
        assert (first, second, third) == (0, 1, 0)
        assert before > 0
        assert after > 0
        assert (before + after, small) == (LARGE, SMALL)
        assert start <= paused <= between[0] <= between[1] <= resumed <= end


class Wire:
    """An outbox over a pair of sockets, whose credit the test gives by hand."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.credit = SenderCredit()
        watch = Watch(Counters(), AttemptClock(), NoObserver())
        self.outbox = Outbox(self.near, 1, credit=self.credit, watch=watch)

    def put(self, unit: int, priority: int, size: int = SIZE) -> bool:
        header = Header(kind=1, origin=0, unit=unit, priority=priority, payload_bytes=size)
        return self.outbox.put(Outgoing(header, [bytes(size)]))

    def write_all(self) -> int:
        """What leaves until nothing more may; answers how many bytes."""
        total = 0
        while self.outbox.urgency() is not None:
            count = self.outbox.write(1 << 20)
            total += len(self.far.recv(count, socket.MSG_WAITALL)) if count else 0
        return total

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.near.close()
        self.far.close()


def test_what_is_urgent_starts_without_credit_once() -> None:
    with Wire() as wire:
        wire.credit.granted(1)
        assert wire.put(0, 9)
        assert wire.write_all() == FIRST_FRAGMENT
        assert wire.put(1, 5), "the I/O thread must be woken"
        assert wire.write_all() == FIRST_FRAGMENT
        wire.put(2, 1)
        assert wire.outbox.urgency() is None, "a second one goes without credit"
        wire.credit.granted(3 * FIRST_FRAGMENT)
        assert wire.outbox.urgency() == 1
        wire.credit.granted(10**9)
        assert wire.write_all() == 3 * SIZE + 6 * HEADER_BYTES - 2 * FIRST_FRAGMENT
        assert wire.outbox.empty()


def test_what_is_urgent_starts_without_credit_between_two_messages() -> None:
    """Short ones are never in the middle of anything when their credit is used up."""
    with Wire() as wire:
        assert wire.put(0, 1, SHORT)
        assert wire.outbox.urgency() is None, "nothing goes before the first grant"
        wire.credit.granted(1)
        wire.put(1, 5, SHORT)
        wire.put(2, 5, SHORT)
        assert wire.write_all() == SHORT + HEADER_BYTES, "one for the credit"
        wire.credit.granted(SHORT + HEADER_BYTES)
        assert wire.write_all() == SHORT + HEADER_BYTES
        assert not wire.put(3, 5, SHORT), "nothing to wake up for"
        assert wire.put(4, 3, SHORT), "the I/O thread must be woken"
        assert wire.outbox.urgency() == 3
        assert wire.write_all() == SHORT + HEADER_BYTES
        assert not wire.put(5, 4, SHORT), "it is less urgent than what left last"
        wire.put(6, 2, SHORT)
        assert wire.outbox.urgency() is None, "a second one goes without credit"
        wire.credit.granted(SHORT)
        assert wire.outbox.urgency() is None, "a grant that leaves the balance used up lets another one go"
        wire.credit.granted(10**6)
        assert wire.write_all() == 4 * (SHORT + HEADER_BYTES)
        assert wire.outbox.empty()


def test_what_is_not_more_urgent_waits_for_credit() -> None:
    with Wire() as wire:
        wire.credit.granted(1)
        wire.put(0, 5)
        assert wire.write_all() == FIRST_FRAGMENT
        wire.put(1, 5)
        assert not wire.put(2, 7), "nothing to wake up for"
        assert not wire.put(3, 5), "nothing to wake up for"
        assert wire.outbox.urgency() is None


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
    assert decode(rest[:HEADER_BYTES]) == 34 * 1024, "rounded up to whole KiB"
    assert message.advance(len(rest)) == 100_000 - 64 * 1024
    assert message.left_bytes == 0
    with pytest.raises(ProtocolError, match="out of step"):
        decode(bytes(HEADER_BYTES))
