"""The receiver's credit bounds what is on its way."""

from __future__ import annotations

import threading

import pytest

from engine.transport import Header
from engine.transport.credit import MIN_WINDOW_BYTES, ReceiverCredit, SenderCredit, Window
from engine.transport.message import HEADER_BYTES
from tests.engine.transport_parties import WAIT_S, connected

pytestmark = pytest.mark.usefixtures("data_plane")
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
        for record in parties.records[:2]:  # what has left may be told a little later
            record.wait(lambda record=record: len(record.sent_units) >= 4)
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
    sender.granted(receiver.take_grant(window, alone=True))
    for turn in range(20_000):
        alone = turn // 10 % 2 == 1
        window = 1000 if alone else 300  # as the measured rate and the number of senders change
        if started < 200 and sender.may_start():
            sender.start(cost)
            receiver.announce(cost)
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
        sender.granted(receiver.take_grant(window, alone=alone))
        assert receiver.on_its_way() <= 1000 + cost
        assert receiver.arrived - receiver.handled <= backlog_bytes + 1000 + cost
    assert started == 200
    assert receiver.handled == 200 * cost


@pytest.mark.parametrize("alone", [True, False])
def test_a_blocked_sender_goes_on_when_less_than_its_window_is_on_its_way(alone: bool) -> None:
    receiver = ReceiverCredit(10**9)
    assert receiver.take_grant(1000, alone=alone) == 1000
    receiver.announce(10_000)
    receiver.arrived = 9_000
    assert receiver.take_grant(1000, alone=alone) == 0
    receiver.arrived = 9_001
    assert receiver.take_grant(1000, alone=alone) == 9_001
    assert receiver.granted - receiver.announced == 1


@pytest.mark.parametrize(("cost", "grants"), [(100, 20), (1000, 100), (5000, 100)])
def test_a_message_that_fills_its_share_of_the_window_costs_one_grant(cost: int, grants: int) -> None:
    """It may start already: a frame that tops the balance up would let nothing else start."""
    receiver, given = ReceiverCredit(10**9), 0
    assert receiver.take_grant(1000, alone=False) == 1000
    for _ in range(100):
        receiver.announce(cost)
        for chunk in (cost * 9 // 10, cost - cost * 9 // 10):
            receiver.arrived += chunk
            given += receiver.take_grant(1000, alone=False) > 0
    assert given == grants


@pytest.mark.parametrize(("alone", "started"), [(True, 2), (False, 1)])
def test_after_the_short_rest_of_a_message_who_is_alone_need_not_wait(alone: bool, started: int) -> None:
    sender, receiver = SenderCredit(), ReceiverCredit(10**9)
    sender.granted(receiver.take_grant(1000, alone=alone))
    sender.start(5000)
    receiver.announce(5000)
    for _ in range(50):
        receiver.arrived += 100
        sender.granted(receiver.take_grant(1000, alone=alone))
    pieces = iter((200, 5000, 200))
    count = 0
    while sender.may_start():
        sender.start(next(pieces))
        count += 1
    assert count == started


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
