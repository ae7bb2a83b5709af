"""Who is missing, who is lost and why; and an orderly end is no failure."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
import time
from multiprocessing.connection import Connection

import pytest

from engine.transport import DeadlineMissed, Endpoint, Header, PeerLost, ProtocolError
from tests.engine.transport_parties import TOKEN, WAIT_S, WEIGHTS, connected, in_threads

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1", "server 0")
HEARTBEAT_S, SILENCE_S = 0.1, 2.0
"""So long that who is silent is never one whom a busy machine has not let speak."""


def test_connect_names_who_is_missing() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: calls are refused
        endpoint = Endpoint(index=1, names=NAMES, hosts=["a"] * 3, deadline_s=0.3, token=TOKEN)
        endpoint.register(0, place=lambda _: None, handle=lambda *_: None)
        addresses = {0: nobody.getsockname(), 1: endpoint.listen(), 2: ("127.0.0.1", 9)}
        with pytest.raises(DeadlineMissed, match=r"worker 1 connecting.* missing: worker 0, server 0"):
            endpoint.connect(addresses)
        endpoint.close()


def test_settings_without_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match=r"silence_s = 1\.0: at least three heartbeats of 0\.5 s"):
        Endpoint(index=0, names=NAMES, hosts=NAMES, heartbeat_s=0.5, silence_s=1.0, token=TOKEN)
    with pytest.raises(ValueError, match="index = 3, 3 names, 3 hosts"):
        Endpoint(index=3, names=NAMES, hosts=NAMES, token=TOKEN)
    with pytest.raises(ValueError, match="token has 8 bytes: give at least 16 random ones"):
        Endpoint(index=0, names=NAMES, hosts=NAMES, token=b"8 bytes!")


def test_strangers_are_turned_away() -> None:
    """A caller with another job's token, and one that says nothing sensible, do not get in."""
    names = ("worker 0", "worker 1")
    endpoints = [
        Endpoint(index=index, names=names, hosts=names, deadline_s=1.0, token=token)
        for index, token in enumerate((b"the token of this job", b"another job's token"))
    ]
    addresses = {index: endpoint.listen() for index, endpoint in enumerate(endpoints)}
    with socket.create_connection(addresses[0]) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: worker\r\nAccept: */*\r\n\r\n")
        errors = []

        def connect(endpoint: Endpoint) -> None:
            try:
                endpoint.connect(addresses)
            except DeadlineMissed as error:
                errors.append(error.missing)

        in_threads([lambda: connect(endpoints[0])])
        assert errors == [("worker 1",)]
    for endpoint in endpoints:
        endpoint.close()


@pytest.mark.parametrize("where", WEIGHTS)
def test_orderly_close_delivers_everything_and_is_no_failure(where: str) -> None:
    """Everything queued before close is handled by the peer; parties may leave one after the other."""
    with connected(NAMES, weigh=WEIGHTS[where]) as parties:
        for unit in range(30):
            header = Header(kind=1, origin=0, unit=unit, payload_bytes=100_000)
            parties.endpoints[0].send(1, header, [bytes(100_000)])
        parties.endpoints[0].close()
        parties.endpoints[1].send(2, Header(kind=1, origin=1))
        parties.endpoints[1].close()
        parties.endpoints[2].close()
        assert [len(record.handled) for record in parties.records] == [0, 30, 1]
        assert [endpoint.failure for endpoint in parties.endpoints] == [None] * 3


def test_who_may_be_lost_fails_nothing_and_is_waited_for_no_more() -> None:
    with connected(NAMES) as parties:
        first, lost, last = parties.endpoints
        seen: list[tuple[int, str]] = []
        gone = [threading.Event(), threading.Event()]
        for endpoint, event in zip((first, last), gone, strict=True):

            def told(number: int, reason: str, event: threading.Event = event) -> None:
                seen.append((number, reason))
                event.set()

            endpoint.may_lose([1], told)
        lost.close(orderly=False, reason="killed")
        assert all(event.wait(WAIT_S) for event in gone)
        first.send(1, Header(kind=1, origin=0, unit=1))  # nobody is there, and nobody minds
        first.send(2, Header(kind=1, origin=0, unit=2))
        parties.records[2].wait(lambda: parties.records[2].handled_units == [2])
        first.send(1, Header(kind=1, origin=0, payload_bytes=4), [bytes(4)])
        in_threads([first.close, last.close])
        assert [first.failure, last.failure] == [None, None]
        assert sorted(number for number, _ in seen) == [1, 1]
        assert all("it gave up: killed" in reason for _, reason in seen)


def test_who_was_given_up_and_lives_hears_of_it() -> None:
    with connected(NAMES[:2], heartbeat_s=HEARTBEAT_S, silence_s=SILENCE_S) as parties:
        gone, release, failed = threading.Event(), threading.Event(), threading.Event()
        parties.endpoints[0].may_lose([1], lambda *_: gone.set())
        parties.endpoints[1].on_failure(lambda _error: failed.set())
        time.sleep(2 * HEARTBEAT_S)  # let both be heard once
        parties.endpoints[1].send(0, Header(kind=1, origin=1), on_sent=lambda: release.wait(WAIT_S) and None)
        assert gone.wait(WAIT_S)
        release.set()
        assert failed.wait(WAIT_S)
        assert parties.endpoints[0].failure is None
        assert "it gave up on this party: no sign of life" in str(parties.endpoints[1].failure)


def test_a_party_that_gives_up_tells_why_and_everybody_names_it() -> None:
    with connected(NAMES) as parties:
        seen = [threading.Event() for _ in NAMES]
        for endpoint, event in zip(parties.endpoints, seen, strict=True):
            endpoint.on_failure(lambda _error, event=event: event.set())
        parties.endpoints[1].close(orderly=False, reason="ValueError: the loss is NaN")
        for index in (0, 2):
            assert seen[index].wait(WAIT_S)
            failure = parties.endpoints[index].failure
            assert isinstance(failure, PeerLost)
            assert (failure.index, failure.name) == (1, "worker 1")
            assert "it gave up: ValueError: the loss is NaN" in failure.reason
            with pytest.raises(PeerLost):
                parties.endpoints[index].send(1 - index, Header(kind=1, origin=index))


@pytest.mark.parametrize("where", WEIGHTS)
def test_what_a_handler_raises_is_the_failure_here_and_a_lost_peer_there(where: str) -> None:
    def handle(party: int, _header: Header, _payload: memoryview | None) -> None:
        raise ArithmeticError(f"party {party} cannot add")

    with connected(NAMES[:2], handle=handle, weigh=WEIGHTS[where]) as parties:
        lost = threading.Event()
        parties.endpoints[0].on_failure(lambda _error: lost.set())
        parties.endpoints[0].send(1, Header(kind=1, origin=0))
        assert lost.wait(WAIT_S)
        assert isinstance(parties.endpoints[1].failure, ArithmeticError)
        told = str(parties.endpoints[0].failure)
        assert told == "lost worker 1: it gave up: ArithmeticError: party 1 cannot add"


def test_a_place_of_the_wrong_size_is_a_protocol_error() -> None:
    with connected(NAMES[:2], place=lambda *_: [memoryview(bytearray(3))]) as parties:
        failed = threading.Event()
        parties.endpoints[1].on_failure(lambda _error: failed.set())
        parties.endpoints[0].send(1, Header(kind=1, origin=0, payload_bytes=4), [bytes(4)])
        assert failed.wait(WAIT_S)
        assert isinstance(parties.endpoints[1].failure, ProtocolError)
        assert "its place has 3 bytes, not 4" in str(parties.endpoints[1].failure)


def test_a_silent_peer_is_lost() -> None:
    """One that keeps its connections open and shows no sign of life."""
    with connected(NAMES[:2], heartbeat_s=HEARTBEAT_S, silence_s=SILENCE_S) as parties:
        lost = threading.Event()
        release = threading.Event()
        parties.endpoints[0].on_failure(lambda _error: lost.set())
        time.sleep(2 * HEARTBEAT_S)  # let both be heard once
        # Stop the other's I/O thread where a stuck process would: inside a callback.
        parties.endpoints[1].send(0, Header(kind=1, origin=1), on_sent=lambda: release.wait(WAIT_S) and None)
        assert lost.wait(WAIT_S)
        release.set()
        assert re.search(
            r"worker 1: no sign of life for .*; the job allows 2 s \(cluster\.silence_s: give more",
            str(parties.endpoints[0].failure),
        )


def _party(index: int, pipe: Connection) -> None:
    """A process that is one party: echoes sizes, reports how it ended."""
    endpoint = Endpoint(index=index, names=NAMES, hosts=NAMES, deadline_s=WAIT_S, token=TOKEN)
    failed = threading.Event()
    endpoint.on_failure(lambda _error: failed.set())
    endpoint.register(0, place=lambda _: None, handle=lambda header, _: pipe.send(header.payload_bytes))
    pipe.send(endpoint.listen())
    endpoint.connect(pipe.recv())
    endpoint.send((index + 1) % 3, Header(kind=1, origin=index, payload_bytes=1 << 20), [bytes(1 << 20)])
    if pipe.recv() == "close":
        endpoint.close()
        pipe.send(repr(endpoint.failure))
        return
    assert failed.wait(WAIT_S)
    pipe.send(str(endpoint.failure))
    endpoint.close(orderly=False)


@pytest.mark.parametrize("kill", [True, False], ids=["SIGKILL", "orderly"])
def test_processes(kill: bool) -> None:
    """Three processes exchange a message each; then one is killed, or all leave in good order."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for index in range(3):
        here, there = context.Pipe()
        processes.append(context.Process(target=_party, args=(index, there), daemon=True))
        processes[-1].start()
        pipes.append(here)
    try:
        addresses = dict(enumerate(_receive(pipe) for pipe in pipes))
        for pipe in pipes:
            pipe.send(addresses)
        assert [_receive(pipe) for pipe in pipes] == [1 << 20] * 3
        if kill:
            for index in (0, 2):
                pipes[index].send("wait")
            os.kill(processes[1].pid or 0, signal.SIGKILL)
            for index in (0, 2):
                assert str(_receive(pipes[index])).startswith("lost worker 1: ")
        else:
            for pipe in pipes:
                pipe.send("close")
            assert [_receive(pipe) for pipe in pipes] == ["None"] * 3
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _receive(pipe: Connection) -> object:
    assert pipe.poll(WAIT_S), "the process did not answer"
    return pipe.recv()
