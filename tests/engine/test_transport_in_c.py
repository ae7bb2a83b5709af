"""What the data plane in C has of its own: it is built, chosen, talks to the Python one and survives nonsense."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engine.launch import Launch
from engine.transport import AttemptClock, Endpoint, Header, PeerLost, ProtocolError, greeting
from engine.transport.control import Control, Frame
from engine.transport.in_c import build
from engine.transport.in_c.library import SLOT_BYTES, Library, library
from engine.transport.message import HEADER_BYTES, Start, decode, granted
from engine.transport.plane import VARIABLE, asked, chosen
from tests.engine.transport_parties import TOKEN, WAIT_S, Record, connected, in_threads
from tests.jobs import job, prepare

NAMES = ("worker 0", "worker 1")
SEEDS = range(12)


def endpoint(index: int, record: Record, data_plane: str) -> Endpoint:
    made = Endpoint(
        index=index, names=NAMES, hosts=NAMES, clock=AttemptClock(), observer=record, token=TOKEN,
        deadline_s=WAIT_S, data_plane=data_plane,  # type: ignore[arg-type]
    )  # fmt: skip
    made.register(0, place=lambda _: None, handle=record.handle)
    return made


@pytest.mark.usefixtures("plane_in_c")
def test_both_data_planes_talk_to_each_other() -> None:
    """Random sizes and priorities both ways at once: everything arrives whole, and both sides count the same bytes."""
    generator = np.random.default_rng(5)
    sizes = [int(size) for size in generator.choice([0, 1, 13_340, SLOT_BYTES, SLOT_BYTES + 1, 300_000], 120)]
    content = {size: generator.integers(0, 256, size, dtype=np.uint8).tobytes() for size in set(sizes)}
    records = [Record(), Record()]
    endpoints = [
        endpoint(index, record, plane)
        for index, (record, plane) in enumerate(zip(records, ("python", "c"), strict=True))
    ]
    addresses = {index: one.listen() for index, one in enumerate(endpoints)}
    in_threads([lambda one=one: one.connect(addresses) for one in endpoints])
    for unit, size in enumerate(sizes):
        for origin, one in enumerate(endpoints):
            header = Header(
                kind=1, origin=origin, unit=unit, layer=unit % 7, priority=unit % 5, payload_bytes=size,
                meta=b"m" * (unit % 3),
            )  # fmt: skip
            one.send(1 - origin, header, [content[size]])
    for record in records:
        record.wait(lambda record=record: len(record.handled) == len(sizes))
        assert all(payload == (content[sizes[h.unit]] or None) for h, payload in record.handled)
    in_threads([one.close for one in endpoints])
    here, there = (one.counters.snapshot() for one in endpoints)
    assert {layer: count for (_, layer), count in here.sent_payload.items()} == {
        layer: count for (_, layer), count in there.received_payload.items()
    }
    assert here.received_payload_bytes() == there.sent_payload_bytes() == sum(sizes)
    assert [one.failure for one in endpoints] == [None, None]


def impostor(address: tuple[str, int]) -> list[socket.socket]:
    """Connections of a party that knows the token: data and control, as worker 1 of `NAMES`."""
    found = []
    for channel in (0, 1):
        sock = socket.create_connection(address)
        message = greeting.call(greeting.Call(1, 0, channel))
        sock.sendall(message)
        proof = greeting.answer(TOKEN, message, sock.recv(greeting.CHALLENGE_BYTES, socket.MSG_WAITALL))
        assert proof is not None
        sock.sendall(proof)
        found.append(sock)
    return found


def nonsense(seed: int) -> tuple[bytes, bytes]:
    """Bytes for the data and the control connection: noise, or messages with some bytes changed."""
    generator = np.random.default_rng(seed)
    messages = b"".join(
        Header(kind=1, origin=1, unit=unit, payload_bytes=size, meta=b"meta").encode() + bytes(size)
        for unit, size in enumerate(generator.integers(0, 100_000, 20).tolist())
    )
    changed = bytearray(messages)
    for at in generator.integers(0, len(changed), 3000 if seed % 2 else 30):
        changed[at] = int(generator.integers(0, 256))
    changed[-HEADER_BYTES:] = bytes(HEADER_BYTES)
    noise = generator.integers(0, 256, 4000, dtype=np.uint8).tobytes()
    return (bytes(changed), b"") if seed % 3 else (b"", noise)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("plane_in_c")
def test_nonsense_ends_the_job_and_nothing_else(seed: int) -> None:
    """Whatever a peer sends, the endpoint says what was wrong, or that the peer is lost, and closes."""
    record, failed = Record(), threading.Event()
    one = endpoint(0, record, "c")
    one.on_failure(lambda _error: failed.set())
    address = one.listen()
    found: list[list[socket.socket]] = []
    in_threads([lambda: found.append(impostor(address)), lambda: one.connect({0: address, 1: address})])
    data, control = found[0]
    for sock, sent in ((data, nonsense(seed)[0]), (control, nonsense(seed)[1])):
        sock.settimeout(WAIT_S)
        with contextlib.suppress(OSError):  # it hangs up once it has heard enough
            sock.sendall(sent)
        sock.close()
    assert failed.wait(WAIT_S)
    assert isinstance(one.failure, ProtocolError | PeerLost)
    one.close()


@pytest.mark.parametrize("counts", [(2**63 - 1, 2**63 - 1), (2**48,) * 2, (-1,)])
def test_credit_that_no_receiver_gives_is_refused(data_plane: str, counts: tuple[int, ...]) -> None:
    record, failed = Record(), threading.Event()
    one = endpoint(0, record, data_plane)
    one.on_failure(lambda _error: failed.set())
    address = one.listen()
    found: list[list[socket.socket]] = []
    in_threads([lambda: found.append(impostor(address)), lambda: one.connect({0: address, 1: address})])
    found[0][1].sendall(b"".join(Frame(Control.CREDIT, count).encode() for count in counts))
    assert failed.wait(WAIT_S)
    assert isinstance(one.failure, ProtocolError)
    assert f"credit of {counts[-1]} bytes: out of step" in str(one.failure)
    for sock in found[0]:
        sock.close()
    one.close()


def exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (more := sock.recv(count - len(found))):
        found += more
    return found


def test_credit_comes_with_a_header(data_plane: str) -> None:
    """A peer that never sends a control frame gives all its credit in the headers of its own messages."""
    record = Record()
    one = endpoint(0, record, data_plane)
    address = one.listen()
    found: list[list[socket.socket]] = []
    in_threads([lambda: found.append(impostor(address)), lambda: one.connect({0: address, 1: address})])
    data = found[0][0]
    data.settimeout(WAIT_S)
    for unit in range(3):
        one.send(1, Header(kind=1, origin=0, unit=unit, payload_bytes=5000), [bytes(5000)])
    for unit, units in enumerate((1, 5, 5)):
        header = bytearray(Header(kind=1, origin=1, unit=unit).encode())
        header[3] = units
        assert granted(header) == units * 1024
        data.sendall(header)
        start = decode(exactly(data, HEADER_BYTES + 5000)[:HEADER_BYTES])
        assert isinstance(start, Start)
        assert start.header.unit == unit
    record.wait(lambda: [header.unit for header, _ in record.handled] == [0, 1, 2])
    one.close(orderly=False)
    for sock in found[0]:
        sock.close()


@pytest.mark.usefixtures("plane_in_c")
def test_bytes_move_while_a_handler_holds_pythons_thread() -> None:
    """That thread moves them itself while it waits; once it stays away, the deputy does, and later it does again."""
    size, count, release = 10_000, 100, threading.Event()

    def handle(party: int, header: Header, _payload: memoryview | None) -> None:
        if header.kind == 2:
            assert release.wait(WAIT_S)
        elif (party, header.kind) == (1, 1):
            parties.endpoints[1].send(0, Header(kind=1, origin=1, unit=header.unit))

    with connected(NAMES, handle=handle, weigh=lambda _: 0, data_plane="c") as parties:
        here, there = parties.records
        for turn in range(3):
            for unit in range(30):  # one after another: the thread comes back soon each time
                parties.endpoints[0].send(1, Header(kind=1, origin=0, unit=unit))
                here.wait(lambda: len(here.handled) == 30 * turn + unit + 1)  # noqa: B023 - called at once
            before = parties.endpoints[1].counters.snapshot().received_payload_bytes()
            parties.endpoints[0].send(1, Header(kind=2, origin=0, priority=-1))
            for unit in range(count):
                header = Header(kind=3, origin=0, unit=unit, payload_bytes=size)
                parties.endpoints[0].send(1, header, [bytes(size)])
            end = time.monotonic() + WAIT_S
            wanted = before + count * size
            while parties.endpoints[1].counters.snapshot().received_payload_bytes() < wanted:
                assert time.monotonic() < end, "what comes is not received while a handler waits"
                time.sleep(0.005)
            kinds = [header.kind for header, _ in there.handled]
            assert kinds.count(2) == turn, "the handler has not returned yet"
            release.set()
            there.wait(lambda: len(there.handled) == (turn + 1) * (30 + 1 + count))  # noqa: B023 - called at once
            release.clear()


def test_a_stale_library_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name says what it was made from."""
    before = build.library_path()
    for source in build._FOLDER.glob("*.[ch]"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "_FOLDER", tmp_path)
    assert build.library_path().name == before.name
    (tmp_path / "credit.c").write_text("/* changed */")
    assert build.library_path().name != before.name


def test_where_there_is_no_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_FOLDER", tmp_path)
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(build.BuildError, match="no C compiler: install one, or `pip install ziglang`"):
        build.build()


@pytest.mark.usefixtures("plane_in_c")
def test_the_library_is_loaded_once() -> None:
    assert isinstance(library(), Library)
    assert library() is library()


@pytest.mark.usefixtures("plane_in_c")
def test_what_is_compiled_is_taken_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen(None) == "c"
    assert chosen("python") == "python"
    monkeypatch.setenv(VARIABLE, "")
    assert chosen(None) == "c"
    monkeypatch.setenv(VARIABLE, "python")
    assert chosen(None) == "python"


def test_a_choice_without_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"data_plane = 'rust' .*: one of python, c, auto"):
        chosen("rust")
    monkeypatch.setattr("engine.transport.plane.library", lambda: None)
    monkeypatch.setenv(VARIABLE, "auto")
    assert chosen(None) == "python"
    with pytest.raises(ValueError, match=r"has not been built; run `python -m engine.transport.in_c`"):
        chosen("c")


def test_what_an_older_version_has_written_is_read_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was called `compiled`, which is said of models here."""
    monkeypatch.setenv(VARIABLE, "compiled")
    assert asked() == "c"
    prepare(job(), tmp_path)
    file = tmp_path / "launch.json"
    stored = json.loads(file.read_text())
    assert stored["data_plane"] == "c"
    file.write_text(json.dumps({**stored, "data_plane": "compiled"}))
    assert Launch.read(tmp_path).data_plane == "c"
