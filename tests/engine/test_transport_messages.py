"""Messages of every shape arrive as they were sent, and every byte is counted on both sides."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from engine.transport import Header, ProtocolError
from engine.transport.message import HEADER_BYTES
from tests.engine.transport_parties import WAIT_S, WEIGHTS, connected

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1")


def test_empty_payload_and_every_header_field() -> None:
    sent = Header(
        kind=255, lane=1, origin=0, step=2**32 - 1, unit=7, part=3, layer=-1, priority=-(2**31),
        queued_ns=-5, payload_bytes=0, meta=b'{"absent": [3]}',
    )  # fmt: skip
    with connected(NAMES) as parties:
        parties.endpoints[0].send(1, sent)
        record = parties.records[1]
        record.wait(lambda: bool(record.handled))
    assert record.handled == [(sent, None)]


@pytest.mark.parametrize("where", WEIGHTS)
@pytest.mark.parametrize("meta", [b"", b"m" * 100_000])
@pytest.mark.parametrize("sizes", [(1,), (0, 3, 0), (5_000_000,), (40_000_000,), (1000,) * 300, (1 << 16, 1)])
def test_any_size_in_any_number_of_views(sizes: tuple[int, ...], meta: bytes, where: str) -> None:
    """Also far beyond credit, backlog and the number of views that one system call takes."""
    generator = np.random.default_rng(1)
    views = [generator.integers(0, 256, size, dtype=np.uint8).data for size in sizes]
    total = sum(sizes)
    header = Header(kind=1, origin=0, payload_bytes=total, meta=meta)
    sent = threading.Event()
    with connected(NAMES, backlog_bytes=1000, credit_bytes=1000, weigh=WEIGHTS[where]) as parties:
        parties.endpoints[0].send(1, header, views, on_sent=sent.set)
        parties.endpoints[0].send(1, Header(kind=2, origin=0))
        record = parties.records[1]
        record.wait(lambda: len(record.handled) == 2)
        assert sent.wait(WAIT_S)
    assert record.handled[0] == (header, b"".join(views))


def test_payload_lands_where_it_belongs() -> None:
    """Placed in two pieces of a bigger array, without passing through scratch memory."""
    target = np.zeros(100, dtype=np.float32)

    def place(_party: int, _header: Header) -> Sequence[memoryview]:
        return [target[10:30].data, target[50:80].data]

    source = np.arange(50, dtype=np.float32)
    with connected(NAMES, place=place) as parties:
        parties.endpoints[0].send(1, Header(kind=1, origin=0, payload_bytes=200), [source.data])
        record = parties.records[1]
        record.wait(lambda: bool(record.handled))
    assert record.handled[0][1] is None
    assert np.array_equal(np.concatenate([target[10:30], target[50:80]]), source)
    assert target.sum() == source.sum()


@pytest.mark.parametrize("where", WEIGHTS)
def test_local_messages_are_not_copied_and_never_on_the_wire(where: str) -> None:
    addresses: list[int] = []
    done = threading.Event()
    source = np.arange(1000, dtype=np.float32)

    def handle(_party: int, _header: Header, payload: memoryview | None) -> None:
        if payload is not None:
            addresses.append(np.frombuffer(payload, dtype=np.uint8).ctypes.data)

    with connected(NAMES, handle=handle, weigh=WEIGHTS[where]) as parties:
        endpoint, record = parties.endpoints[0], parties.records[0]
        header = Header(kind=1, lane=1, origin=0, layer=4, payload_bytes=4000)
        endpoint.send(0, header, [source.data], on_sent=done.set)
        endpoint.send(0, header, [source[:500].data, source[500:].data])
        record.wait(lambda: len(record.handled) == 2)
        assert done.wait(WAIT_S)
        traffic = endpoint.counters.snapshot()
    assert addresses[0] == source.ctypes.data
    assert [payload for _, payload in record.handled] == [source.tobytes()] * 2
    assert record.wires == [False, False]
    assert traffic.local_payload == {4: 8000}
    assert traffic.sent_payload == {}
    assert traffic.received_payload == {}


@pytest.mark.parametrize("where", WEIGHTS)
def test_counters_are_exact_and_equal_on_both_sides(where: str) -> None:
    sizes = {3: 70_001, 5: 0, 9: 300_000}
    with connected(NAMES, weigh=WEIGHTS[where]) as parties:
        for layer, size in sizes.items():
            for origin in (0, 1):
                header = Header(kind=1, origin=origin, layer=layer, payload_bytes=size, meta=b"12345")
                parties.endpoints[origin].send(1 - origin, header, [bytes(size)])
        for record in parties.records:
            record.wait(lambda record=record: len(record.handled) == 3)
        parties.close()
        first, second = (endpoint.counters.snapshot() for endpoint in parties.endpoints)
    expected = {layer: size for layer, size in sizes.items() if size}
    for here, there, peer in ((first, second, 1), (second, first, 0)):
        assert here.sent_payload == {(peer, layer): size for layer, size in expected.items()}
        assert there.received_payload == {(1 - peer, layer): size for layer, size in expected.items()}
        # Control frames may still be on their way when the other side has closed, headers may not.
        assert here.sent_overhead[peer] >= 3 * (HEADER_BYTES + 5)
        assert there.received_overhead[1 - peer] >= 3 * (HEADER_BYTES + 5)
        assert here.sent_payload_bytes() == there.received_payload_bytes() == 370_001


@pytest.mark.parametrize("where", WEIGHTS)
def test_full_backlogs_in_both_directions_while_handlers_send(where: str) -> None:
    """Every message is answered from inside the handler; nothing waits for anything in a circle."""
    size, count = 100_000, 40

    def handle(party: int, header: Header, _payload: memoryview | None) -> None:
        if header.kind == 1:
            answer = Header(kind=2, origin=party, unit=header.unit, payload_bytes=size)
            parties.endpoints[party].send(1 - party, answer, [bytes(size)])

    with connected(NAMES, handle=handle, credit_bytes=1000, backlog_bytes=0, weigh=WEIGHTS[where]) as parties:
        for unit in range(count):
            for origin in (0, 1):
                header = Header(kind=1, origin=origin, unit=unit, payload_bytes=size)
                parties.endpoints[origin].send(1 - origin, header, [bytes(size)])
        for record in parties.records:
            record.wait(lambda record=record: len(record.handled) == 2 * count)


def test_calls_that_do_not_fit_are_refused() -> None:
    with connected(NAMES, lanes=(0,)) as parties:
        endpoint = parties.endpoints[0]
        with pytest.raises(ProtocolError, match="announces 5 bytes, its views hold 4"):
            endpoint.send(1, Header(kind=1, origin=0, payload_bytes=5), [bytes(4)])
        with pytest.raises(ProtocolError, match="only with: worker 1"):
            endpoint.send(7, Header(kind=1, origin=0))
        with pytest.raises(ProtocolError, match="does not fit the wire format"):
            endpoint.send(1, Header(kind=256, origin=0))
        with pytest.raises(ProtocolError, match=r"lane 1; registered: \[0\]"):
            endpoint.send(0, Header(kind=1, lane=1, origin=0))
