"""Who does not know the attempt's token gets in nowhere and holds nobody up; who announces too much is refused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.axes.codec import CODEC
from engine.coordination.dispatch import BESIDE_BYTES, Dispatch, largest_message
from engine.launch import Launch
from engine.plan.description import DTYPE_BYTES
from engine.plan.encoding import encoding
from engine.plan.units import cut
from engine.protocol.messages import Lane, Message
from engine.transport import DeadlineMissed, Endpoint, Header, PeerLost, ProtocolError, greeting
from engine.transport.door import MOST_STRANGERS
from engine.transport.rendezvous import Rendezvous
from tests.engine.transport_parties import TOKEN, WAIT_S, in_threads
from tests.jobs import job, prepare

pytestmark = pytest.mark.usefixtures("data_plane")
NAMES = ("worker 0", "worker 1")


def parties(**options: object) -> list[Endpoint]:
    found = [
        Endpoint(index=index, names=NAMES, hosts=NAMES, **{"deadline_s": WAIT_S, "token": TOKEN, **options})
        for index in range(2)
    ]  # fmt: skip
    for endpoint in found:
        endpoint.register(0, place=lambda _: None, handle=lambda *_: None)
    return found


def test_more_silent_strangers_than_are_heard_at_a_time_hold_nobody_up() -> None:
    """Each of them would have been waited for by itself."""
    endpoints = parties()
    addresses = {index: endpoint.listen() for index, endpoint in enumerate(endpoints)}
    with ExitStack() as strangers:
        callers = [
            strangers.enter_context(socket.create_connection(addresses[0])) for _ in range(MOST_STRANGERS + 8)
        ]
        for caller in callers[::2]:
            caller.sendall(greeting.call(greeting.Call(1, 0, 0))[:10])  # half of a call
        in_threads([lambda endpoint=endpoint: endpoint.connect(addresses) for endpoint in endpoints])
        in_threads([endpoint.close for endpoint in endpoints])
    assert [endpoint.failure for endpoint in endpoints] == [None, None]


def test_who_takes_a_partys_place_is_found_out_and_learns_no_token() -> None:
    """An impostor listens where worker 0 should: worker 1 tells it nothing that opens another door."""
    endpoint = parties(deadline_s=3.0)[1]
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def impersonate() -> None:
            sock, _ = impostor.accept()
            with sock:
                message = sock.recv(greeting.CALL_BYTES, socket.MSG_WAITALL)
                sock.sendall(greeting.challenge(b"a guess of the token", message))
                heard.append(message + sock.recv(greeting.ANSWER_BYTES))

        listening = threading.Thread(target=impersonate, daemon=True)
        listening.start()
        address = impostor.getsockname()
        with pytest.raises(DeadlineMissed, match="missing: worker 0"):
            endpoint.connect({0: (address[0], address[1]), 1: endpoint.listen()})
        listening.join(WAIT_S)
    assert len(heard[0]) == greeting.CALL_BYTES, "a proof was given to somebody who had none"
    assert TOKEN not in heard[0]
    endpoint.close()


def test_a_proof_serves_for_one_connection_only() -> None:
    """What somebody overheard, or the listener's own proof sent back, opens nothing."""
    message = greeting.call(greeting.Call(1, 0, 0))
    challenged = greeting.challenge(TOKEN, message)
    proof = greeting.answer(TOKEN, message, challenged)
    assert proof is not None
    assert greeting.accepted(TOKEN, message, challenged, proof)
    assert not greeting.accepted(TOKEN, message, greeting.challenge(TOKEN, message), proof)
    assert not greeting.accepted(TOKEN, greeting.call(greeting.Call(1, 0, 0)), challenged, proof)
    assert not greeting.accepted(TOKEN, message, challenged, challenged[-greeting.ANSWER_BYTES :])
    assert not greeting.accepted(b"another job's token", message, challenged, proof)


def test_every_attempt_has_a_token_of_its_own_that_only_its_owner_reads(tmp_path: Path) -> None:
    launches = [prepare(job(), tmp_path / name) for name in "ab"]
    tokens = [launch.token() for launch in launches]
    assert tokens[0] != tokens[1]
    assert all(len(token) == 32 and any(token) for token in tokens)
    assert (tmp_path / "a" / "mesh-token").stat().st_mode & 0o777 == 0o600
    assert Launch.read(tmp_path / "a").token() == tokens[0]


def test_headers_may_ask_for_no_more_than_the_plan_allows(tmp_path: Path) -> None:
    launch = prepare(job(), tmp_path)
    unit = cut(launch.plan, launch.model)[0]  # type: ignore[arg-type]
    endpoint = parties()[0]
    dispatch = Dispatch(endpoint, Lane.SERVER, largest_message(launch.model, 26))
    dispatch.expect([unit])
    size = unit.count * 4
    allowed: Callable[[Header, int], None] = dispatch._allow
    allowed(Header(kind=Message.PUSH, origin=1, unit=unit.index, payload_bytes=size), 100)
    allowed(Header(kind=Message.GATHER, origin=1, payload_bytes=2**30), 0)
    for header, meta in (
        (Header(kind=Message.PUSH, origin=1, unit=unit.index, payload_bytes=size + BESIDE_BYTES + 1), 0),
        (Header(kind=Message.PUSH, origin=1, unit=unit.index, payload_bytes=size), 2**24),
        (Header(kind=Message.ROUND, origin=1, unit=10**6, payload_bytes=1), 0),
        (Header(kind=Message.GATHER, origin=1, payload_bytes=2**62), 0),
    ):
        with pytest.raises(ProtocolError, match=r"announces .* the plan allows"):
            allowed(header, meta)
    endpoint.close()


@pytest.mark.parametrize("codec", [row.name for row in CODEC if row.available])
def test_every_codecs_shortest_messages_are_allowed(codec: str) -> None:
    """Of one element int8 sends a byte and a scale. In rounds, sums of 64 ranks may share a message."""
    for dtype in ("float16", "float32"):
        for count in range(1, 1000):
            plain = count * DTYPE_BYTES[dtype]
            assert 64 * (encoding(codec).bytes(dtype, count) - plain) <= BESIDE_BYTES


def test_what_announces_too_much_ends_the_connection_before_memory_is_taken() -> None:
    def allow(header: Header, meta_bytes: int) -> None:
        if header.payload_bytes > 100:
            raise ProtocolError(f"{header.payload_bytes} bytes; the plan allows 100")

    endpoints = parties()
    for endpoint in endpoints:
        endpoint.register(
            1, place=lambda _: pytest.fail("a place was asked for"), handle=lambda *_: None, allow=allow
        )
    addresses = {index: endpoint.listen() for index, endpoint in enumerate(endpoints)}
    in_threads([lambda endpoint=endpoint: endpoint.connect(addresses) for endpoint in endpoints])
    failed = threading.Event()
    endpoints[1].on_failure(lambda _error: failed.set())
    endpoints[0].send(1, Header(kind=1, origin=0, lane=1, payload_bytes=101), [bytes(101)])
    assert failed.wait(WAIT_S)
    assert "101 bytes; the plan allows 100" in str(endpoints[1].failure)
    for endpoint in endpoints:
        endpoint.close(orderly=False)


def test_a_rendezvous_ends_when_a_party_is_lost(tmp_path: Path) -> None:
    """Long before its deadline."""
    member = Rendezvous(f"file://{tmp_path}/rendezvous", index=0, names=NAMES, deadline_s=WAIT_S * 10)
    lost = PeerLost(1, "worker 1", "the connection broke")
    threading.Timer(0.2, member.fail, [lost]).start()
    with pytest.raises(PeerLost, match="lost worker 1: the connection broke"):
        member.barrier("ready")
    with pytest.raises(PeerLost):
        member.barrier("done")
