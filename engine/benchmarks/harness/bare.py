"""One process of the transport's benchmark without the transport: sockets, messages of the same size, nothing else.

What it costs is what the kernel costs, for whatever stands on top: no priorities, no credit, no handlers, no threads. A
wake for each message, and as many messages in a call as the socket takes.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from multiprocessing.connection import Connection

from engine.benchmarks.harness.hosts import Host, tasks
from engine.benchmarks.harness.party import COUNT_NS, USUAL, WAIT_S, Answer, Cost, Setting, Task
from engine.transport import mesh
from engine.transport.message import HEADER_BYTES

UNSENT_BYTES, SEND_BUFFER_BYTES = 64 * 1024, 2**20
"""Those of an endpoint."""
_TOGETHER_BYTES = 64 * 1024


class BareParty:
    """One process: a connection with each other one, and one thread that waits for all of them."""

    def __init__(self, place: Host, pipe: Connection, setting: Setting) -> None:
        names = [f"host {index}" for index in range(place.count)]
        listener = mesh.listen(place.address, 0)
        pipe.send(listener.getsockname()[:2])
        pairs = mesh.connect_all(
            listener, place.index, names, pipe.recv(), token=setting.token, deadline_s=WAIT_S
        )
        listener.close()
        self._sockets: dict[int, socket.socket] = {}
        for peer, (data, control) in pairs.items():
            mesh.tune(data, control, UNSENT_BYTES, SEND_BUFFER_BYTES)
            control.close()
            self._sockets[peer] = data
        self._buffer = bytearray(2**20)
        pipe.send("connected")

    def work(self, task: Task) -> Answer:
        """Send, and receive what is expected."""
        cost = Cost.now()
        message = bytes(task.size + HEADER_BYTES)
        together = memoryview(message * max(_TOGETHER_BYTES // len(message), 1))
        left = {peer: count * len(message) for peer, count in task.sends}
        expected, counted, came = task.expects * len(message), list[tuple[int, int]](), 0
        epoll, by_fd, came_of = select.epoll(), dict[int, int](), dict.fromkeys(self._sockets, 0)
        for peer, sock in self._sockets.items():
            _wake_after(sock, len(message))
            by_fd[sock.fileno()] = peer
            epoll.register(sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if left.get(peer) else 0))
        first_ns = 0
        while came < expected or any(left.values()):
            for fd, event in epoll.poll(WAIT_S):
                peer = by_fd[fd]
                sock = self._sockets[peer]
                if event & select.EPOLLOUT:
                    at = -left[peer] % len(message)
                    with contextlib.suppress(BlockingIOError):
                        left[peer] -= sock.send(together[at : at + left[peer]])
                    if not left[peer]:
                        epoll.modify(fd, select.EPOLLIN)
                if event & select.EPOLLIN:
                    count = sock.recv_into(self._buffer)
                    came += count
                    came_of[peer] += count
                    _wake_after(sock, len(message) - came_of[peer] % len(message))
                    now_ns = time.monotonic_ns()
                    first_ns = first_ns or now_ns
                    if not counted or now_ns - counted[-1][0] >= COUNT_NS or came >= expected:
                        counted.append((now_ns, came * task.size // len(message)))
        epoll.close()
        arrivals = [(at, USUAL, 0) for at in (first_ns, counted[-1][0])] if counted else []
        return Answer(arrivals=arrivals, counted=counted, cost=cost.until_now())


def _wake_after(sock: socket.socket, count: int) -> None:
    """Let the kernel wake us once so many bytes are there: a message, or what is left of one."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(count, UNSENT_BYTES))


def take_part_bare(place: Host, pipe: Connection, setting: Setting) -> None:
    party = BareParty(place, pipe, setting)
    for task in tasks(pipe):
        pipe.send(party.work(task))
