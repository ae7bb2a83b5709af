"""One process of the transport's benchmark: an endpoint that sends what it is told and notes what comes."""

from __future__ import annotations

import random
import resource
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection

from engine.benchmarks.harness.hosts import Host, tasks
from engine.transport import AttemptClock, Endpoint, Header, Pacer
from engine.transport.plane import DataPlaneChoice

URGENT, USUAL = 1, 5
COUNT_NS = 10_000_000
WAIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all processes of one network know."""

    epoch_ns: int
    pacing: str | None
    """The pacer's file; None: the links themselves are limited, or nothing is."""
    rate_bps: int | None
    data_plane: DataPlaneChoice | None = None
    """Who moves the bytes; None: as the environment says."""
    token: bytes = field(default_factory=partial(secrets.token_bytes, 32))
    """What these processes know and nobody else."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What one process does next."""

    size: int
    sends: tuple[tuple[int, int], ...] = ()
    """(receiver, slices)"""
    expects: int = 0
    """Slices that come."""
    urgent: int = 0
    """Urgent slices to the first receiver, one after another."""
    spacing_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a process has cost since its start, or within some time."""

    cpu_ns: int
    """In the program and in the kernel for it, of all threads."""
    kernel_ns: int
    switches: int
    """How often one of its threads has begun to wait."""

    @classmethod
    def now(cls) -> Cost:
        """Since the process's start."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        kernel_ns = round(used.ru_stime * 1e9)
        return cls(cpu_ns=round(used.ru_utime * 1e9) + kernel_ns, kernel_ns=kernel_ns, switches=used.ru_nvcsw)

    def until_now(self) -> Cost:
        """Since this one."""
        now = Cost.now()
        return Cost(
            cpu_ns=now.cpu_ns - self.cpu_ns,
            kernel_ns=now.kernel_ns - self.kernel_ns,
            switches=now.switches - self.switches,
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came. All times in ns."""

    arrivals: list[tuple[int, int, int]]
    """(handled, priority, queued) of every slice."""
    counted: list[tuple[int, int]]
    """(time, payload bytes that the transport has received): slices on their way count for what has come."""
    cost: Cost
    """Of this process, meanwhile."""


class Party:
    """One process: an endpoint that counts what comes."""

    def __init__(self, place: Host, pipe: Connection, setting: Setting) -> None:
        self._place = place
        self._clock = AttemptClock(setting.epoch_ns)
        self._arrivals: list[tuple[int, int, int]] = []
        self._counted: list[tuple[int, int]] = []
        self._expected = 0
        self._changed = threading.Condition()
        self._buffer = memoryview(bytearray(2**20))
        names = [f"host {index}" for index in range(place.count)]
        paced = setting.pacing is not None and setting.rate_bps is not None
        self.endpoint = Endpoint(
            index=place.index,
            names=names,
            hosts=names,
            clock=self._clock,
            deadline_s=WAIT_S,
            token=setting.token,
            data_plane=setting.data_plane,
            pacer=Pacer(str(setting.pacing), setting.rate_bps or 0) if paced else None,
        )
        self.endpoint.register(
            0,
            place=lambda header: [self._buffer[: header.payload_bytes]],
            handle=self._handle,
            weigh=lambda header: header.payload_bytes,
        )
        pipe.send(self.endpoint.listen(bind=place.address))
        self.endpoint.connect(pipe.recv())
        pipe.send("connected")

    def _handle(self, header: Header, _payload: memoryview | None) -> None:
        now_ns = self._clock.now_ns()
        with self._changed:
            self._arrivals.append((now_ns, header.priority, header.queued_ns))
            if not self._counted or now_ns - self._counted[-1][0] >= COUNT_NS:
                self._counted.append((now_ns, self.endpoint.counters.snapshot().received_payload_bytes()))
            if (
                len(self._arrivals) == self._expected
            ):  # to wake the other thread for each costs more than they do
                self._changed.notify()

    def work(self, task: Task) -> Answer:
        """Send, and wait for what is expected."""
        cost = Cost.now()
        with self._changed:
            self._expected = task.expects
        payload = bytes(task.size)
        usual = Header(kind=1, origin=self._place.index, priority=USUAL, payload_bytes=task.size)
        most = max((count for _, count in task.sends), default=0)
        for number in range(most):  # in turn, so that no receiver is served first
            for receiver, count in task.sends:
                if number < count:
                    self.endpoint.send(receiver, usual, [payload])
        for _ in range(task.urgent):
            time.sleep(task.spacing_s * random.uniform(0.8, 1.2))
            header = Header(
                kind=1,
                origin=self._place.index,
                priority=URGENT,
                payload_bytes=task.size,
                queued_ns=self._clock.now_ns(),
            )
            self.endpoint.send(task.sends[0][0], header, [payload])
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._arrivals) >= task.expects, WAIT_S):
                raise RuntimeError(f"{len(self._arrivals)} of {task.expects} slices came in {WAIT_S:g} s")
            answer = Answer(arrivals=self._arrivals, counted=self._counted, cost=cost.until_now())
            self._arrivals, self._counted = [], []
        return answer


def take_part(place: Host, pipe: Connection, setting: Setting) -> None:
    party = Party(place, pipe, setting)
    for task in tasks(pipe):
        pipe.send(party.work(task))
    party.endpoint.close()
