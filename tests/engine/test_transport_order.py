"""Wire order: under a backlog, what is more urgent goes next, at each of the four queues."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from random import Random

import pytest

from engine.simulate.clock import VirtualClock
from engine.simulate.network import VirtualNetwork
from engine.transport import Header, Pacer
from engine.transport.backlog import LEAST_FRAGMENT_BYTES
from tests.backend.executor_attempts import until
from tests.engine.transport_parties import WAIT_S, Parties, connected

WORKER, SERVER = 0, 1
pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "server 0")
LANE = {WORKER: 0, SERVER: 1}
SLICE = bytes(20_000)
FIRST, BACKLOG, URGENT, TRIGGER = 100, range(1, 8), 99, 1000


class Gate:
    """A handler that stops at the unit FIRST until the test opens the gate."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def handle(self, _party: int, header: Header, _payload: memoryview | None) -> None:
        if header.unit == FIRST:
            self.entered.set()
            assert self.open.wait(WAIT_S)


def header(origin: int, unit: int) -> Header:
    """A slice for the other side; the urgent one has the smaller priority."""
    priority = 1 if unit == URGENT else 5
    return Header(
        kind=1, lane=LANE[1 - origin], origin=origin, unit=unit, layer=unit, priority=priority,
        payload_bytes=len(SLICE),
    )  # fmt: skip


def send(parties: Parties, origin: int, units: list[int]) -> None:
    for unit in units:
        parties.endpoints[origin].send(1 - origin, header(origin, unit), [SLICE])


@pytest.mark.parametrize("sender", [WORKER, SERVER], ids=["worker send", "server send"])
def test_send_queue(sender: int) -> None:
    """Only one message fits the receiver's credit; the urgent one, queued last, is the next to leave."""
    gate = Gate()
    with connected(NAMES, handle=gate.handle, credit_bytes=1, backlog_bytes=0) as parties:
        send(parties, sender, [FIRST])
        assert gate.entered.wait(WAIT_S)
        send(parties, sender, [*BACKLOG, URGENT])
        gate.open.set()
        receiver = parties.records[1 - sender]
        receiver.wait(lambda: len(receiver.handled_units) == 9)
    assert parties.records[sender].sent_units == [FIRST, URGENT, *BACKLOG]
    assert receiver.received_units == [FIRST, URGENT, *BACKLOG]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_waits_leaves_in_one_order_on_both_data_planes(seed: int) -> None:
    """Messages of random priorities and lengths, some in several fragments, all queued while nothing may leave: by
    priority, and of one priority as they came."""
    random, gate = Random(seed), Gate()
    drawn = [(random.randint(1, 5), random.randint(1, 3 * LEAST_FRAGMENT_BYTES)) for _ in range(30)]
    with connected(NAMES, handle=gate.handle, credit_bytes=1, backlog_bytes=0) as parties:
        for unit, (priority, size) in [(FIRST, (0, 1)), *enumerate(drawn)]:
            own = Header(kind=1, lane=1, origin=WORKER, unit=unit, priority=priority, payload_bytes=size)
            parties.endpoints[WORKER].send(SERVER, own, [bytes(size)])
            assert gate.entered.wait(WAIT_S)
        gate.open.set()
        record = parties.records[SERVER]
        record.wait(lambda: len(record.handled_units) == len(drawn) + 1)
    expected = [FIRST, *sorted(range(len(drawn)), key=lambda unit: drawn[unit][0])]
    assert record.received_units == record.handled_units == expected
    assert parties.records[WORKER].sent_units == expected


LARGE, RATE_BPS = 500_000, 4_000_000
"""It takes a second: time to put something in front of its rest, also on a busy machine."""
LESS_AND_LESS_PATIENT = (9, 6, 3)
"""Priorities of large messages, each put while the one before it is on its way."""


def interruptions(seed: int) -> list[tuple[Header, list[Header]]]:
    """Each large message, and the short ones that are put when it is on its way, most urgent first: some go before its
    rest, some between it and what it has interrupted, some last."""
    random = Random(seed)

    def message(unit: int, priority: int, size: int) -> Header:
        return Header(
            kind=1, lane=1, origin=WORKER, unit=unit, layer=unit, priority=priority, payload_bytes=size
        )

    return [
        (
            message(number, priority, LARGE),
            [
                message(10 * (number + 1) + k, drawn, random.randint(1, 10_000))
                for k, drawn in enumerate(sorted(random.choices(range(1, 11), k=4)))
            ],
        )
        for number, priority in enumerate(LESS_AND_LESS_PATIENT)
    ]


def on_the_virtual_network(waves: list[tuple[Header, list[Header]]]) -> list[int]:
    """In which order they have left whole."""
    clock, ended = VirtualClock(), []
    network = VirtualNetwork(
        clock, dict(enumerate(NAMES)), lambda _, header: ended.append(header.unit), rate_bps=RATE_BPS
    )

    def wave(number: int) -> None:
        network.send(WORKER, SERVER, waves[number][0])
        clock.at(clock.now_ns + 1, lambda: look(number))

    def look(number: int) -> None:
        large, short = waves[number]
        if not any(each.header is large for each in network.passed):
            clock.at(clock.now_ns + 1_000_000, lambda: look(number))
            return
        for each in short:
            network.send(WORKER, SERVER, each)
        if number + 1 < len(waves):
            wave(number + 1)

    wave(0)
    clock.run()
    return ended


def come(parties: Parties, message: Header) -> int:
    """How much of it."""
    counted = parties.endpoints[SERVER].counters.snapshot()
    return counted.received_payload.get((WORKER, message.layer), 0)


@pytest.mark.parametrize("seed", range(2))
def test_what_interrupts_leaves_in_one_order_on_both_data_planes(seed: int, tmp_path: Path) -> None:
    """Interruptions that are interrupted, with what waits meanwhile: as on the virtual network."""
    waves = interruptions(seed)
    expected = on_the_virtual_network(waves)
    assert expected.index(2) < expected.index(1) < expected.index(0), "each was interrupted by the next one"
    with connected(NAMES, pacer=lambda: Pacer(tmp_path / "pacer", RATE_BPS)) as parties:
        for large, short in waves:
            parties.endpoints[WORKER].send(SERVER, large, [bytes(LARGE)])
            until(partial(come, parties, large), "it is on its way")
            for each in short:
                parties.endpoints[WORKER].send(SERVER, each, [bytes(each.payload_bytes)])
        record = parties.records[SERVER]
        record.wait(lambda: len(record.handled_units) == len(expected))
    for runs in (parties.records[WORKER].sent_units, record.received_units):
        assert list(dict.fromkeys(reversed(runs)))[::-1] == expected
        assert len(runs) > len(expected), "some left in several runs"


@pytest.mark.parametrize("receiver", [SERVER, WORKER], ids=["server receive", "worker receive"])
def test_receive_queue(receiver: int) -> None:
    """Everything has arrived while the handler was busy; the urgent one, arrived last, is handled next."""
    gate = Gate()
    with connected(NAMES, handle=gate.handle) as parties:
        record = parties.records[receiver]
        send(parties, 1 - receiver, [FIRST])
        assert gate.entered.wait(WAIT_S)
        send(parties, 1 - receiver, [*BACKLOG, URGENT])
        record.wait(lambda: len(record.received_units) == 9)
        gate.open.set()
        record.wait(lambda: len(record.handled_units) == 9)
    assert record.handled_units == [FIRST, URGENT, *BACKLOG]


def test_answers_sent_by_a_handler_keep_their_priority() -> None:
    """A whole round: the server answers from inside its handler, each answer as urgent as its request."""
    gate = Gate()

    def handle(party: int, request: Header, payload: memoryview | None) -> None:
        gate.handle(party, request, payload)
        if party == SERVER and request.unit == TRIGGER:
            for unit in (*BACKLOG, URGENT):
                parties.endpoints[SERVER].send(WORKER, header(SERVER, unit), [SLICE])

    with connected(NAMES, handle=handle, credit_bytes=1, backlog_bytes=0) as parties:
        send(parties, SERVER, [FIRST])
        assert gate.entered.wait(WAIT_S)
        parties.endpoints[WORKER].send(SERVER, Header(kind=1, lane=1, origin=WORKER, unit=TRIGGER))
        server, worker = parties.records[SERVER], parties.records[WORKER]
        server.wait(lambda: TRIGGER in server.handled_units)
        gate.open.set()
        worker.wait(lambda: len(worker.handled_units) == 9)
    assert worker.handled_units == [FIRST, URGENT, *BACKLOG]


def test_equal_priorities_keep_their_order_and_local_messages_queue_too() -> None:
    gate = Gate()
    with connected(("worker 0",), handle=gate.handle) as parties:
        endpoint, record = parties.endpoints[0], parties.records[0]
        for unit in (FIRST, *BACKLOG, URGENT):
            priority = 1 if unit == URGENT else 5
            own = Header(kind=1, lane=1, origin=0, unit=unit, priority=priority, payload_bytes=len(SLICE))
            endpoint.send(0, own, [SLICE])
            assert gate.entered.wait(WAIT_S)
        gate.open.set()
        record.wait(lambda: len(record.handled_units) == 9)
    assert record.handled_units == [FIRST, URGENT, *BACKLOG]


@pytest.mark.parametrize("peer", [SERVER, WORKER], ids=["another party", "itself"])
def test_what_does_not_hurry_leaves_with_what_does_or_after_a_nudge(peer: int) -> None:
    """Nothing else would make the sleeping I/O thread look within an hour."""
    with connected(NAMES, weigh=lambda _: 1, heartbeat_s=3600.0, silence_s=14_400.0) as parties:
        worker, record = parties.endpoints[WORKER], parties.records[peer]

        def put(unit: int, *, hurry: bool) -> None:
            to = Header(
                kind=1, lane=LANE[peer], origin=WORKER, unit=unit, layer=unit, payload_bytes=len(SLICE)
            )
            worker.send(peer, to, [SLICE], hurry=hurry)

        put(1, hurry=False)
        put(2, hurry=False)
        put(3, hurry=True)
        record.wait(lambda: len(record.handled_units) == 3)
        put(4, hurry=False)
        worker.nudge()
        record.wait(lambda: len(record.handled_units) == 4)
    assert record.handled_units == [1, 2, 3, 4]
