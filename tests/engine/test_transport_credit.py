"""The receiver's credit bounds what is on its way."""

from __future__ import annotations

import threading

import pytest

from engine.transport import Header
from engine.transport.credit import MIN_WINDOW_BYTES, ReceiverCredit, SenderCredit, Window
from engine.transport.message import HEADER_BYTES
from tests.engine.transport_parties import WAIT_S, connected

NAMES = ("worker 0", "worker 1", "server 0")
SERVER = 2
SIZE = 30_000
COST = SIZE + HEADER_BYTES


def test_bytes_in_flight_stay_within_credit_plus_one_message() -> None:
    """While the server handles nothing, each sender starts exactly what its credit allows."""
    release = threading.Event()
    credit = 4 * COST

    def handle(_party: int, _header: Header, _payload: memoryview | None) -> None:
        assert release.wait(WAIT_S)

    with connected(NAMES, handle=handle, credit_bytes=credit, backlog_bytes=0) as parties:
        for worker in (0, 1):
            for unit in range(20):
                header = Header(kind=1, lane=1, origin=worker, unit=unit, payload_bytes=SIZE)
                parties.endpoints[worker].send(SERVER, header, [bytes(SIZE)])
        server = parties.records[SERVER]
        server.wait(lambda: len(server.received_units) == 8)
        # A round trip on the control connections: anything that could have been sent has been.
        parties.endpoints[SERVER].align_clock()
        assert [len(record.sent_units) for record in parties.records[:2]] == [4, 4]
        assert parties.endpoints[SERVER].counters.snapshot().received_payload_bytes() == 8 * SIZE
        release.set()
        server.wait(lambda: len(server.handled_units) == 40)


@pytest.mark.parametrize("backlog_bytes", [0, 1000, 10**9])
@pytest.mark.parametrize("cost", [1, 100, 5000])
def test_a_sender_never_stalls_and_never_exceeds(cost: int, backlog_bytes: int) -> None:
    """Both sides as pure state, bytes arriving in odd chunks, messages handled late."""
    sender, receiver, window = SenderCredit(), ReceiverCredit(backlog_bytes), 1000
    on_the_way: list[int] = []
    unhandled: list[int] = []
    started = 0
    sender.granted(receiver.take_grant(window))
    for turn in range(20_000):
        window = 300 + 700 * (turn // 10 % 2)  # as the measured rate and the number of senders change
        if started < 200 and sender.may_start():
            sender.start(cost)
            receiver.announced += cost
            on_the_way.append(cost)
            started += 1
        elif on_the_way:
            chunk = min(on_the_way[0], 333)
            on_the_way[0] -= chunk
            receiver.arrived += chunk
            if on_the_way[0] == 0:
                on_the_way.pop(0)
                unhandled.append(cost)
        elif unhandled:
            receiver.handled += unhandled.pop(0)
        else:
            break
        sender.granted(receiver.take_grant(window))
        assert receiver.on_its_way() <= 1000 + cost
        assert receiver.arrived - receiver.handled <= backlog_bytes + 1000 + cost
    assert started == 200
    assert receiver.handled == 200 * cost


def test_a_blocked_sender_goes_on_when_less_than_its_window_is_on_its_way() -> None:
    receiver = ReceiverCredit(10**9)
    assert receiver.take_grant(1000) == 1000
    receiver.announced, receiver.arrived = 10_000, 9_000
    assert receiver.take_grant(1000) == 0
    receiver.arrived = 9_001
    assert receiver.take_grant(1000) == 9_001
    assert receiver.granted - receiver.announced == 1


def test_the_window_follows_the_rate_and_is_shared() -> None:
    """1 MB in 4 ms is 2 Gbit/s: 250 kB in a millisecond; idle time does not count."""
    window = Window()
    assert window.share(1) == MIN_WINDOW_BYTES
    for moment in range(5):
        window.passed(250_000, moment * 10**6, amid=moment > 0)
    window.passed(1, 10**12, amid=False)
    assert window.share(1) == 250_000
    assert window.share(4) == 62_500
    assert Window(1000).share(3) == 333


def test_settings_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="credit_bytes = 0"):
        Window(0)
    with pytest.raises(ValueError, match="backlog_bytes = -1"):
        ReceiverCredit(-1)
