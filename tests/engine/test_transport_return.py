"""A party that was lost and is started anew comes in by the door that others have kept open, and nobody else does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from engine.transport import Endpoint, Header, mesh
from engine.transport.errors import ProtocolError
from tests.engine.transport_parties import TOKEN, WAIT_S, Parties, Record, connected

NAMES = ("server 0", "worker 1")


def never() -> bool:
    return False


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused asks sooner whether it is wanted at all."""
    monkeypatch.setattr(mesh, "STRANGER_S", 0.3)


def after(calls: int) -> Callable[[], bool]:
    """Says so when it has been asked so often: after 2, both connections have been tried."""
    asked = count()
    return lambda: next(asked) >= calls


@contextmanager
def lost(**options: object) -> Iterator[tuple[Parties, threading.Event, list[int]]]:
    """Party 0, which has lost party 1 and kept its door open; an event for its return, and whom it has let in."""
    with connected(NAMES, data_plane="python", **options) as parties:
        gone, back, seen = threading.Event(), threading.Event(), []
        first, second = parties.endpoints

        def returned(number: int, incarnation: int) -> None:
            assert number == 1
            seen.append(incarnation)
            back.set()

        first.may_lose([1], lambda *_: gone.set())
        first.keep_door([1], returned)
        second.close(orderly=False, reason="killed")
        assert gone.wait(WAIT_S)
        yield parties, back, seen
        first.close()
        assert first.failure is None


@contextmanager
def anew(token: bytes = TOKEN) -> Iterator[tuple[Endpoint, Record]]:
    record = Record()
    endpoint = Endpoint(
        index=1,
        names=NAMES,
        hosts=NAMES,
        observer=record,
        deadline_s=WAIT_S,
        token=token,
        data_plane="python",
    )
    for lane in (0, 1):
        endpoint.register(lane, place=lambda header: None, handle=record.handle)
    try:
        yield endpoint, record
    finally:
        endpoint.close(orderly=False)


def message(unit: int, origin: int, size: int = 0) -> tuple[Header, list[bytes]]:
    return Header(kind=1, origin=origin, unit=unit, payload_bytes=size), [bytes(size)] if size else []


def test_what_is_sent_after_a_return_arrives_and_nothing_from_before() -> None:
    with lost() as (parties, back, seen), anew() as (endpoint, record):
        first = parties.endpoints[0]
        first.send(1, *message(1, 0, 1_000_000))  # to who was lost
        assert endpoint.rejoin({0: first.address}, 1, never)
        assert back.wait(WAIT_S)
        first.send(1, *message(2, 0, 1_000_000))
        record.wait(lambda: len(record.handled) == 1)
        endpoint.send(0, *message(3, 1, 1_000_000))
        parties.records[0].wait(lambda: parties.records[0].handled_units[-1:] == [3])
        assert record.handled_units == [2]
        assert seen == [1]


def test_credit_for_what_was_lost_is_given_to_nobody() -> None:
    """A message of who was lost is handled when another one has come in its place."""
    release, busy = threading.Event(), threading.Event()

    def handle(party: int, header: Header, payload: memoryview | None) -> None:
        if party == 0 and header.unit == 1:
            busy.set()
            assert release.wait(WAIT_S)

    options = {"handle": handle, "backlog_bytes": 0, "credit_bytes": 10_000}
    with connected(NAMES, data_plane="python", **options) as parties, anew() as (endpoint, _):  # type: ignore[arg-type]
        first, second = parties.endpoints
        gone, back = threading.Event(), threading.Event()
        first.may_lose([1], lambda *_: gone.set())
        first.keep_door([1], lambda *_: back.set())
        second.send(0, *message(1, 1, 500_000))
        assert busy.wait(WAIT_S)
        second.close(orderly=False, reason="killed")
        assert gone.wait(WAIT_S)
        assert endpoint.rejoin({0: first.address}, 1, never)
        assert back.wait(WAIT_S)
        release.set()
        parties.records[0].wait(lambda: parties.records[0].handled_units == [1])
        credit = first._loop._peers[1].inbox.credit  # type: ignore[union-attr]
        for unit in range(2, 12):
            endpoint.send(0, *message(unit, 1, 100_000))
        parties.records[0].wait(lambda: len(parties.records[0].handled) == 11)
        assert credit.handled <= credit.arrived, "more was given back than had come"
        endpoint.close()
        first.close()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("incarnation", [0, 1])
def test_who_has_come_already_does_not_come_again(incarnation: int) -> None:
    with lost() as (parties, back, seen), anew() as (endpoint, _), anew() as (again, _):
        first = parties.endpoints[0]
        assert endpoint.rejoin({0: first.address}, 1, never)
        assert back.wait(WAIT_S)
        endpoint.close(orderly=False, reason="killed")
        assert not again.rejoin({0: first.address}, incarnation, after(2))
        assert seen == [1]


@pytest.mark.usefixtures("impatient")
def test_who_has_not_been_lost_is_not_replaced() -> None:
    with connected(NAMES, data_plane="python") as parties, anew() as (endpoint, _):
        first, second = parties.endpoints
        first.may_lose([1], lambda *_: None)
        first.keep_door([1], lambda *_: pytest.fail("somebody has come in"))
        assert not endpoint.rejoin({0: first.address}, 1, after(2))
        second.send(0, *message(1, 1))
        parties.records[0].wait(lambda: parties.records[0].handled_units == [1])


@pytest.mark.usefixtures("impatient")
def test_a_stranger_is_not_let_in() -> None:
    with lost() as (parties, _, seen), anew(b"of some other attempt") as (endpoint, _):
        assert not endpoint.rejoin({0: parties.endpoints[0].address}, 1, after(2))
        assert not seen


def test_who_calls_often_enough_is_the_one_that_counts() -> None:
    """Several incarnations, one after another; each hears what is sent to it."""
    with lost() as (parties, back, seen):
        first = parties.endpoints[0]
        for incarnation in (1, 2, 5):
            back.clear()
            with anew() as (endpoint, record):
                assert endpoint.rejoin({0: first.address}, incarnation, never)
                assert back.wait(WAIT_S)
                first.send(1, *message(incarnation, 0))
                record.wait(lambda record=record: len(record.handled) == 1)  # type: ignore[misc]
                assert record.handled_units == [incarnation]
        assert seen == [1, 2, 5]


def test_a_door_needs_connections() -> None:
    with anew() as (endpoint, _), pytest.raises(ProtocolError, match="once connected"):
        endpoint.keep_door([0], lambda *_: None)
