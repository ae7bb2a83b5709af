"""A real server that may open few files, and strangers who connect, dawdle, and never take what they asked for."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from uvicorn import Config
from uvicorn.server import ServerState

from backend.client import Client
from backend.server import listen
from backend.sockets.accepting import accept
from backend.sockets.punctual import Patience, Punctual, make_room
from tests.backend.executor_attempts import until
from tests.backend.job_specs import job_spec
from tests.backend.live_server import LiveServer

OPEN_FILES = 250
"""Of which 50 may be connections."""
HEAD_S = 1.0
BYTES_PER_S = 50
LIMIT_S = 120.0
HOST = b"Host: 127.0.0.1\r\n"
JSON = b"POST /api/v1/plans HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
FEED = b"GET /api/v1/notices HTTP/1.1\r\n" + HOST
HEALTH = b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"\r\n"
DAWDLERS = {
    "nothing": b"",
    "half a line": b"GET /api",
    "half a head": b"GET /api/v1/health HTTP/1.1\r\n" + HOST,
    "a second head": HEALTH + b"GET /",
    "half a body": JSON + b"Content-Length: 1000\r\n\r\n{",
    "a chunk": JSON + b"Transfer-Encoding: chunked\r\n\r\n400\r\n{",
    "what was asked for": JSON + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
    "a body that is refused": JSON.replace(b"json", b"xml") + b"Content-Length: 100000\r\n\r\n{",
    "a feed's body": FEED + b"Content-Length: 1000\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(
    server_lane: None, tmp_path_factory: pytest.TempPathFactory, descriptions: Path
) -> Iterator[LiveServer]:
    data_dir = tmp_path_factory.mktemp("sockets")
    (data_dir / "cache").symlink_to(descriptions)
    with LiveServer(
        data_dir,
        anew=True,
        open_files=OPEN_FILES,
        cpu_devices=2,
        request_seconds=HEAD_S,
        request_bytes_per_second=BYTES_PER_S,
        answer_seconds=HEAD_S,
    ) as found:
        yield found
        found.stop()
    assert "Traceback" not in "".join(found.output)


def connected(server: LiveServer, sent: bytes = b"") -> socket.socket:
    address = urlsplit(server.url)
    connection = socket.create_connection((str(address.hostname), address.port or 80), timeout=LIMIT_S)
    connection.sendall(sent)
    return connection


def lines(server: LiveServer, words: str) -> list[str]:
    return [line for line in server.output if words in line]


def files_of(server: LiveServer) -> set[int]:
    return {int(each.name) for each in Path(f"/proc/{server.process.pid}/fd").iterdir()}


def is_held(connection: socket.socket, server: LiveServer) -> bool:
    """Whether the server has its end of a connection: what nobody has belongs to no file."""
    ends = urlsplit(server.url).port, connection.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if tuple(int(end.rpartition(":")[2], 16) for end in fields[1:3]) == ends:
            return fields[9] != "0"
    return False


def drip(connections: list[socket.socket]) -> None:
    for connection in connections:
        with suppress(OSError):  # it has been ended
            connection.sendall(b"x")


@dataclass(frozen=True)
class Small:
    """A server in this process that has no routes."""

    state: ServerState
    address: tuple[str, int]

    @property
    def served(self) -> list[Punctual]:
        return [one for one in self.state.connections if isinstance(one, Punctual)]


@asynccontextmanager
async def small(patience: Patience, most: int) -> AsyncIterator[Small]:
    """Takes `most` connections at one time; where others wait, who dawdles with a head makes room."""
    config, state = Config(FastAPI(), lifespan="off", log_config=None), ServerState()
    config.load()
    with listen("127.0.0.1", 0, for_others=False) as sock:
        found = Small(state, sock.getsockname())
        accepting = asyncio.create_task(
            accept(
                sock,
                lambda: Punctual(config, state, {}, patience),
                state.connections,
                most=most,
                wanted=most,
                make_room=lambda: make_room(found.served),
            )
        )
        try:
            yield found
        finally:
            accepting.cancel()
            for one in found.served:
                one.transport.close()


def test_the_parts_of_an_answer_wait_for_no_acknowledgement() -> None:
    """A body was 40 ms behind its head, in every answer."""

    async def option() -> int:
        patience = Patience(head_s=HEAD_S, bytes_per_s=BYTES_PER_S, unread_s=HEAD_S)
        async with small(patience, most=1) as server:
            _, writer = await asyncio.open_connection(*server.address)
            while not server.served:
                await asyncio.sleep(0)
            (protocol,) = server.served
            connection = protocol.transport.get_extra_info("socket")
            found: int = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            return found

    assert asyncio.run(option()) == 1


def test_heads_that_never_end_keep_nobody_out_of_a_full_server() -> None:
    most = 4

    async def run() -> list[bytes]:
        patience = Patience(head_s=3_600, bytes_per_s=BYTES_PER_S, unread_s=3_600)
        async with small(patience, most) as server:
            strangers = [await asyncio.open_connection(*server.address) for _ in range(3 * most)]
            for number, (_, writer) in enumerate(strangers):
                writer.write(DAWDLERS["a second head" if number % 2 else "half a head"])
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(HEALTH)
            answers = [await asyncio.wait_for(one.read(12), LIMIT_S) for one in (reader, strangers[0][0])]
            for _, one in [*strangers, (reader, writer)]:
                one.close()
            return answers

    assert asyncio.run(run()) == [b"HTTP/1.1 404", b"HTTP/1.1 503"]


def test_who_does_not_go_on_is_not_waited_for(server: LiveServer) -> None:
    """And who does is, however long it takes: a silent feed, and an upload on a slow line."""
    body = b" " * 10_000
    with ExitStack() as stack:
        feed = stack.enter_context(connected(server, FEED + b"\r\n"))
        slow = stack.enter_context(connected(server, JSON + b"Content-Length: %d\r\n\r\n" % len(body)))
        still = {name: stack.enter_context(connected(server, sent)) for name, sent in DAWDLERS.items()}
        dripping = [stack.enter_context(connected(server, sent)) for sent in DAWDLERS.values()]
        for start in range(0, len(body), 500):
            slow.sendall(body[start : start + 500])
            drip(dripping)
            time.sleep(4 * HEAD_S / (len(body) / 500))
        answer = HTTPResponse(slow)
        answer.begin()
        assert answer.status == 422, "it took four times as long as a head may"
        answers = {name: ended(connection) for name, connection in still.items()}
        for connection in dripping:
            ended(connection)
        assert answers.pop("nothing") == b""
        assert b"415" in answers.pop("a body that is refused")
        assert b"event: ready" in answers.pop("a feed's body")
        assert answers["a second head"].startswith(b"HTTP/1.1 200")
        for name, said in answers.items():
            assert b"HTTP/1.1 408" in said, name
        with Client(server.url) as client:
            client.submit(job_spec("seen by a feed that was silent"))
        assert heard(feed, b"event: job")


def heard(feed: socket.socket, words: bytes) -> bool:
    """Whether a feed says this before it ends."""
    said, deadline = b"", time.monotonic() + LIMIT_S
    while words not in said and (piece := feed.recv(65536)):
        assert time.monotonic() < deadline, said
        said += piece
    return words in said


def ended(connection: socket.socket) -> bytes:
    """All that the server says before it ends the connection."""
    said = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            said += piece
    return said


def test_who_takes_nothing_of_an_answer_is_not_waited_for(server: LiveServer) -> None:
    with (
        connected(server, FEED + b"\r\n") as feed,
        connected(server, (b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 100) as connection,
    ):
        for each in (feed, connection):
            assert each.recv(1, socket.MSG_PEEK), "the answer comes"
        until(
            lambda: not is_held(connection, server), "the server ends it", within_s=LIMIT_S
        )  # and tells nobody
        assert is_held(feed, server), "who has taken what there was stays"


def test_what_strangers_send_is_hardly_logged(server: LiveServer) -> None:
    upgrade = HEALTH[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for sent, status in ((upgrade, b"200"), (b"\x16\x03\x01\r\n\r\n", b"400")):
        for _ in range(10):
            with connected(server, sent) as connection:
                assert connection.recv(12) == b"HTTP/1.1 " + status
    assert not lines(server, "pgrade") + lines(server, "WebSocket")
    assert len(lines(server, "Invalid HTTP request")) < 5


def test_who_finds_no_room_waits(server: LiveServer) -> None:
    """Neither the log nor a job suffers; and when connections end, all is as before."""
    with Client(server.url) as client, ExitStack() as stack:
        feed = stack.enter_context(connected(server, FEED + b"\r\n"))
        job = client.submit(job_spec("in a crowd", training={"steps": 20, "global_batch": 32}))
        for _ in range(80):
            stack.enter_context(connected(server))
        assert client.health().status == "ok"
        assert len(files_of(server)) < OPEN_FILES
        done = client.wait(job.id, timeout_s=LIMIT_S)
        assert (done.state, done.attempts[0].sealed) == ("succeeded", True), done.message
        assert heard(feed, b'"state": "succeeded"')
        full = lines(server, "others wait until one ends")
        assert 0 < len(full) < 5
        assert f"the server has {OPEN_FILES - 200} connections" in full[0]
        assert f"limit of {OPEN_FILES} open files" in full[0]
        assert "ulimit -n 4200" in full[0]


def test_a_system_that_accepts_no_connection_is_waited_out(server: LiveServer) -> None:
    pid, used = server.process.pid, files_of(server)
    least = next(number for number in range(OPEN_FILES) if number not in used)
    # Whatever else the server closes meanwhile has a higher number, which it is not given again.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (least, OPEN_FILES))
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server))
        until(lambda: lines(server, "Too many open files"), "it is said", within_s=LIMIT_S)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    with Client(server.url) as client:
        assert client.health().status == "ok"
    assert len(lines(server, "Too many open files")) < 5
