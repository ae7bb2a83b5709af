"""What should the server exchanges stand on: own sockets with epoll, ZeroMQ, or Gloo's send and receive?

    python -m engine.benchmarks.transport_choice                            # loopback as it is
    unshare -n python -m engine.benchmarks.transport_choice --shape 1gbit   # as root: a shaped link

One sender, one receiver, two processes. For every transport and message size: goodput of a long backlog,
CPU seconds per GB (both processes, user and system), and how long an urgent message needs from being queued
behind that backlog to its handler, with the number of backlog messages that were handled in between. ZeroMQ
and Gloo get the same user-space heap in front, drained by one blocking sender thread, as P3 does with
ZeroMQ (high water mark 1). The transports take turns, and goodput and CPU are the best of all rounds, so
that other load on the machine counts little. Needs pyzmq, which nothing else here does.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import resource
import secrets
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist

from engine.benchmarks.harness.report import Report, arguments
from engine.transport import Endpoint, Header, PriorityQueue

URGENT, USUAL = 0, 5
NAMES = ("worker 0", "server 0")
WAIT_S = 120.0


class Sender(Protocol):
    """Queues messages for the one receiver; `sent` counts those that have left."""

    sent: int

    def send(self, priority: int, number: int) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one pair of processes measures."""

    transport: str
    size_bytes: int
    backlog: int
    urgent: bool
    port: int
    directory: str
    token: bytes = field(default_factory=partial(secrets.token_bytes, 32))


class HeapThread:
    """The user-space heap in front of a blocking `put(priority, number)`."""

    def __init__(self, put: Callable[[int, int], None]) -> None:
        self.sent = 0
        self._put = put
        self._queue: PriorityQueue[tuple[int, int]] = PriorityQueue()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, priority: int, number: int) -> None:
        with self._changed:
            self._queue.push(priority, (priority, number))
            self._changed.notify()

    def _run(self) -> None:
        number = 0
        while number >= 0:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue))
                priority, number = self._queue.pop()
            self._put(priority, number)
            self.sent += 1

    def close(self) -> None:
        self.send(USUAL + 1, -1)
        self._thread.join()


class EndpointSender:
    """Our own transport."""

    def __init__(self, setting: Setting) -> None:
        self.sent = 0
        self._payload = bytearray(setting.size_bytes)
        self._endpoint = _endpoint(0, setting, lambda *_: None)

    def send(self, priority: int, number: int) -> None:
        header = Header(kind=1, origin=0, unit=number, priority=priority, payload_bytes=len(self._payload))
        self._endpoint.send(1, header, [self._payload], on_sent=self._count)

    def _count(self) -> None:
        self.sent += 1

    def close(self) -> None:
        self._endpoint.close()


def _endpoint(index: int, setting: Setting, handle: Callable[[Header, memoryview | None], None]) -> Endpoint:
    endpoint = Endpoint(index=index, names=NAMES, hosts=("a", "b"), deadline_s=WAIT_S, token=setting.token)
    endpoint.listen(port=setting.port + index)
    endpoint.register(0, place=lambda _header: None, handle=handle)
    endpoint.connect({party: ("127.0.0.1", setting.port + party) for party in (0, 1)})
    return endpoint


def _receive_endpoint(setting: Setting, arrived: Callable[[int, int], bool]) -> None:
    done = threading.Event()

    def handle(header: Header, _payload: memoryview | None) -> None:
        if arrived(header.priority, header.unit):
            done.set()

    endpoint = _endpoint(1, setting, handle)
    done.wait(WAIT_S)
    endpoint.close()


def _zmq_sender(setting: Setting) -> HeapThread:
    import zmq  # noqa: PLC0415 - only this comparison needs it

    push = zmq.Context().socket(zmq.PUSH)
    push.setsockopt(zmq.SNDHWM, 1)
    push.connect(f"tcp://127.0.0.1:{setting.port}")
    payload = bytearray(setting.size_bytes)

    def put(priority: int, number: int) -> None:
        if number >= 0:
            push.send(b"%d %d" % (priority, number), zmq.SNDMORE)
            push.send(payload, copy=False)

    return HeapThread(put)


def _receive_zmq(setting: Setting, arrived: Callable[[int, int], bool]) -> None:
    import zmq  # noqa: PLC0415 - only this comparison needs it

    pull = zmq.Context().socket(zmq.PULL)
    pull.setsockopt(zmq.RCVHWM, 1)
    pull.bind(f"tcp://127.0.0.1:{setting.port}")
    finished = False
    while not finished:
        priority, number = map(int, pull.recv().split())
        pull.recv(copy=False)
        finished = arrived(priority, number)


def _join_gloo(index: int, setting: Setting) -> None:
    dist.init_process_group("gloo", init_method=f"file://{setting.directory}/gloo", rank=index, world_size=2)


def _gloo_sender(setting: Setting) -> HeapThread:
    _join_gloo(0, setting)
    payload = torch.zeros(setting.size_bytes, dtype=torch.uint8)

    def put(priority: int, number: int) -> None:
        if number >= 0:
            dist.send(torch.tensor([priority, number]), 1)
            dist.send(payload, 1)

    return HeapThread(put)


def _receive_gloo(setting: Setting, arrived: Callable[[int, int], bool]) -> None:
    _join_gloo(1, setting)
    payload = torch.zeros(setting.size_bytes, dtype=torch.uint8)
    head = torch.zeros(2, dtype=torch.int64)
    finished = False
    while not finished:
        dist.recv(head, 0)
        dist.recv(payload, 0)
        finished = arrived(int(head[0]), int(head[1]))


SENDERS: dict[str, Callable[[Setting], Sender]] = {
    "own sockets, epoll": EndpointSender, "ZeroMQ": _zmq_sender, "Gloo send/recv": _gloo_sender,
}  # fmt: skip
RECEIVERS = {
    "own sockets, epoll": _receive_endpoint, "ZeroMQ": _receive_zmq, "Gloo send/recv": _receive_gloo,
}  # fmt: skip


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _run_sender(setting: Setting, pipe: Connection) -> None:
    torch.set_num_threads(1)
    sender = SENDERS[setting.transport](setting)
    sender.send(USUAL, 0)  # warm-up: connections, buffers
    pipe.recv()
    cpu_s, start_ns = _cpu_s(), time.monotonic_ns()
    for number in range(1, setting.backlog + 1):
        sender.send(USUAL, number)
    if setting.urgent:
        while sender.sent < setting.backlog // 4:
            time.sleep(0.0005)
        start_ns = time.monotonic_ns()
        sender.send(URGENT, setting.backlog + 1)
    pipe.send(start_ns)
    pipe.recv()
    pipe.send(_cpu_s() - cpu_s)
    sender.close()


def _run_receiver(setting: Setting, pipe: Connection) -> None:
    torch.set_num_threads(1)
    total = setting.backlog + setting.urgent
    arrivals: list[tuple[int, int]] = []
    cpu_s = 0.0

    def arrived(priority: int, number: int) -> bool:
        nonlocal cpu_s
        if number == 0:
            cpu_s = _cpu_s()
            pipe.send("warm")
            return False
        arrivals.append((time.monotonic_ns(), priority))
        if len(arrivals) < total:
            return False
        pipe.send((arrivals, _cpu_s() - cpu_s))
        return True

    RECEIVERS[setting.transport](setting, arrived)


def measure(transport: str, size_bytes: int, backlog: int, *, urgent: bool) -> tuple[float, float, int]:
    """(seconds, CPU seconds, messages ahead): of the whole backlog, or of one urgent message behind it."""
    with tempfile.TemporaryDirectory() as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        setting = Setting(
            transport=transport, size_bytes=size_bytes, backlog=backlog, urgent=urgent,
            port=20_000 + probe.getsockname()[1] % 10_000, directory=directory,
        )  # fmt: skip
        context = multiprocessing.get_context("spawn")
        (ours, theirs), (ours_too, theirs_too) = context.Pipe(), context.Pipe()
        processes = [
            context.Process(target=_run_sender, args=(setting, theirs)),
            context.Process(target=_run_receiver, args=(setting, theirs_too)),
        ]
        for process in processes:
            process.start()
        ours_too.recv()
        ours.send("go")
        start_ns = ours.recv()
        arrivals, receiver_cpu_s = ours_too.recv()
        ours.send("end")
        cpu_s = ours.recv() + receiver_cpu_s
        for process in processes:
            process.join(WAIT_S)
    end_ns = next(at for at, priority in arrivals if priority == URGENT) if urgent else arrivals[-1][0]
    ahead = sum(start_ns < at < end_ns for at, _ in arrivals)
    return (end_ns - start_ns) / 1e9, cpu_s, ahead


@dataclass
class Row:
    """What was measured of one transport with one message size, round by round."""

    goodput_gbps: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)
    urgent_ms: list[float] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)

    def measure(self, transport: str, size_bytes: int, total_bytes: int) -> None:
        """One round: a long backlog, and an urgent message behind a shorter one."""
        backlog = total_bytes // size_bytes
        seconds, cpu_s, _ = measure(transport, size_bytes, backlog, urgent=False)
        self.goodput_gbps.append(backlog * size_bytes * 8 / seconds / 1e9)
        self.cpu_s_per_gb.append(cpu_s / (backlog * size_bytes / 1e9))
        seconds, _, ahead = measure(transport, size_bytes, backlog // 2, urgent=True)
        self.urgent_ms.append(seconds * 1e3)
        self.ahead.append(ahead)

    def shown(self) -> list[float]:
        """The table's cells."""
        return [
            max(self.goodput_gbps),
            min(self.cpu_s_per_gb),
            statistics.median(self.urgent_ms),
            max(self.urgent_ms),
            statistics.median(self.ahead),
        ]


def shape(rate: str) -> None:
    """Turn this network namespace's loopback into a link of `rate`; never the machine's own."""
    if Path("/proc/self/ns/net").readlink() == Path("/proc/1/ns/net").readlink():
        raise SystemExit("--shape would throttle this machine's own loopback: run it under `unshare -n`")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for command in (
        "ip link set lo mtu 1500 up",
        f"tc qdisc add dev lo root tbf rate {rate} burst 64k latency 50ms",
    ):
        subprocess.run(command.split(), check=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--shape", help="shape this network namespace's loopback first, e.g. 1gbit (root)")
    parser.add_argument("--rounds", type=int, default=5, help="the transports take turns")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    if options.shape:
        shape(options.shape)
    with Report(
        "transport-choice", "Own sockets, ZeroMQ or Gloo", "What should the servers stand on?", options
    ) as report:
        report.plan(
            [f"{options.rounds} rounds on {options.shape or 'loopback'}"], minutes=0.6 * options.rounds
        )
        transports = list(SENDERS)
        if importlib.util.find_spec("zmq") is None:
            report.note("SKIPPED ZeroMQ: pyzmq is not installed")
            transports.remove("ZeroMQ")
        table = []
        for size_bytes in (200_000, 4_000_000):
            rows = {transport: Row() for transport in transports}
            for _ in range(options.rounds):
                for transport, row in rows.items():
                    row.measure(
                        transport, size_bytes, 40_000_000 if options.shape or options.quick else 400_000_000
                    )
            for transport, row in rows.items():
                table.append([transport, f"{size_bytes // 1000} kB", *row.shown()])
                report.raw([{"transport": transport, "size_bytes": size_bytes, **vars(row)}])
        columns = [
            "transport",
            "message",
            "Gbit/s, best",
            "CPU s/GB, least",
            "urgent ms, median",
            "worst",
            "ahead",
        ]
        report.table(f"Transports on {options.shape or 'loopback'}", columns, table)


if __name__ == "__main__":
    main()
