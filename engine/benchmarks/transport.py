"""Does the transport fill its links, and how long does an urgent slice wait behind a deep backlog?

    python -m engine.benchmarks.transport                 # hosts of a lab, links shaped by the kernel
    python -m engine.benchmarks.transport --paced         # no permission for a lab: paced in software

One process per host, deep backlogs of slices. Goodput: payload that reached the handlers over the rate of the link,
while all directions are busy: two hosts both ways, three senders to one port, every host to every other. Urgent: k
senders meet at one port, the first one queues an urgent slice now and then; shown from queueing to its handler. Aim:
k + 1 slices' time plus 1 ms.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.hosts import Hosts, Place, tasks
from engine.benchmarks.harness.machine import CpuMeter
from engine.benchmarks.harness.report import Report, arguments
from engine.lab import permitted
from engine.transport import AttemptClock, Endpoint, Header, Pacer

URGENT, USUAL = 1, 5
HOSTS = 5
SPACING = 10
"""Slice times between two urgent ones."""
COUNT_NS = 10_000_000
WAIT_S = 120.0
PATTERNS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "two hosts, both ways": ((0, 1), (1, 0)),
    "three senders, one port": ((1, 0), (2, 0), (3, 0)),
    "four hosts, each to each": tuple((i, j) for i in range(4) for j in range(4) if i != j),
}
"""(sender, receiver)"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all processes of one network know."""

    epoch_ns: int
    pacing: str | None
    """The pacer's file; None: the links themselves are limited, or nothing is."""
    rate_bps: int | None


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
class Answer:
    """What came. All times in ns."""

    arrivals: list[tuple[int, int, int]]
    """(handled, priority, queued) of every slice."""
    counted: list[tuple[int, int]]
    """(time, payload bytes that the transport has received): slices on their way count for what has come."""


class Party:
    """One process: an endpoint that counts what comes."""

    def __init__(self, place: Place, pipe: Connection, setting: Setting) -> None:
        self._place = place
        self._clock = AttemptClock(setting.epoch_ns)
        self._arrivals: list[tuple[int, int, int]] = []
        self._counted: list[tuple[int, int]] = []
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
            self._changed.notify()

    def work(self, task: Task) -> Answer:
        """Send, and wait for what is expected."""
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
            answer = Answer(arrivals=self._arrivals, counted=self._counted)
            self._arrivals, self._counted = [], []
        return answer


def _main(place: Place, pipe: Connection, setting: Setting) -> None:
    party = Party(place, pipe, setting)
    for task in tasks(pipe):
        pipe.send(party.work(task))
    party.endpoint.close()


def goodput(hosts: Hosts, pattern: str, size: int, bps: float, seconds: float) -> dict[str, Any]:
    """The least goodput of the pattern's receivers in bit/s, while all of them receive; and the CPU use."""
    pairs = PATTERNS[pattern]
    busiest = max(sum(to == host for _, to in pairs) for host in range(HOSTS))
    slices = max(20, round(bps * seconds / 8 / size / busiest))
    work = [
        Task(
            size=size,
            sends=tuple((to, slices) for sender, to in pairs if sender == host),
            expects=slices * sum(to == host for _, to in pairs),
        )
        for host in range(HOSTS)
    ]
    with CpuMeter() as cpu:
        answers = [answer for answer in hosts.ask(work) if answer.arrivals]
    begin = max(answer.arrivals[0][0] for answer in answers)
    end = min(answer.arrivals[-1][0] for answer in answers)
    reached = []
    for answer in answers:
        inside = [(at, count) for at, count in answer.counted if begin <= at <= end]
        (first_ns, first), (last_ns, last) = inside[0], inside[-1]
        reached.append((last - first) * 8e9 / (last_ns - first_ns))
    return {
        "pattern": pattern,
        "size": size,
        "bps": min(reached),
        "all_bps": reached,
        "cpu_share": cpu.share(),
    }


def urgent(hosts: Hosts, senders: int, size: int, rate_bps: int, count: int) -> dict[str, Any]:
    """Delays in seconds of the urgent slices that the first of `senders` queued while its backlog lasted."""
    slice_s = size * 8 / rate_bps
    backlog = round(1.6 * SPACING * (count + 2) / senders)
    work = [Task(size=size, expects=senders * backlog + count)]
    for host in range(1, HOSTS):
        sends = ((0, backlog),) if host <= senders else ()
        work.append(
            Task(size=size, sends=sends, urgent=count if host == 1 else 0, spacing_s=SPACING * slice_s)
        )
    arrivals = hosts.ask(work)[0].arrivals
    busy_until = max(at for at, priority, _ in arrivals if priority == USUAL)
    delays = [
        (at - queued) / 1e9 for at, priority, queued in arrivals if priority == URGENT and at < busy_until
    ]
    return {"senders": senders, "size": size, "slice_s": slice_s, "delays_s": delays}


def run(report: Report, options: argparse.Namespace, rate_mbps: float | None) -> None:
    """Everything at one rate."""
    rate_bps = None if rate_mbps is None else round(rate_mbps * 1e6)
    shown = "unlimited" if rate_mbps is None else f"{rate_mbps:g}"
    filled, waited = [], []
    with tempfile.TemporaryDirectory() as directory:
        pacing = str(Path(directory) / "pacing") if options.paced else None
        setting = Setting(epoch_ns=time.monotonic_ns(), pacing=pacing, rate_bps=rate_bps)
        with Hosts(_main, HOSTS, lab=not options.paced, rate_bps=rate_bps, argument=setting) as hosts:
            addresses = dict(enumerate(hosts.answers()))
            hosts.ask([addresses] * HOSTS)
            for size in options.sizes:
                for pattern in PATTERNS:
                    found = goodput(hosts, pattern, size, rate_bps or 8e9, options.seconds)
                    share = f"{found['bps'] / rate_bps:.1%}" if rate_bps else ""
                    filled.append(
                        [shown, size, pattern, found["bps"] / 1e6, share, f"{found['cpu_share']:.0%}"]
                    )
                    report.raw([{"mbps": rate_mbps, **found}])
                for senders in (1, 2, 3, 4) if rate_bps else ():
                    found = urgent(hosts, senders, size, rate_bps or 0, options.urgent)
                    waited.append([shown, size, senders, *_delays(found)])
                    report.raw([{"mbps": rate_mbps, **found}])
    columns = ["Mbit/s", "slice, bytes", "who sends", "least goodput, Mbit/s", "of the rate", "CPU"]
    report.table(f"Goodput, {shown} Mbit/s", columns, filled)
    if waited:
        columns = [
            "Mbit/s",
            "slice, bytes",
            "senders",
            "urgent",
            "median, ms",
            "worst, ms",
            "aim, ms",
            "aim met",
        ]
        report.table(f"Urgent slices, {shown} Mbit/s", columns, waited)


def _delays(found: Mapping[str, Any]) -> list[Any]:
    delays, aim_s = found["delays_s"], (found["senders"] + 1) * found["slice_s"] + 1e-3
    if not delays:
        return [0, "", "", aim_s * 1e3, "the backlog ran dry"]
    middle = statistics.median(delays)
    return [len(delays), middle * 1e3, max(delays) * 1e3, aim_s * 1e3, "yes" if middle <= aim_s else "NO"]


def minutes(options: argparse.Namespace) -> float:
    """What all takes, roughly."""
    goodput_s = len(options.sizes) * len(PATTERNS) * options.seconds
    urgent_s = sum(
        4 * 1.6 * SPACING * (options.urgent + 2) * size * 8 / rate / 1e6
        for size in options.sizes
        for rate in options.rates
    )
    return ((goodput_s + 8) * (len(options.rates) + 1) + urgent_s) / 60


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="*", default=[100, 1000], help="Mbit/s")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200_000, 13_340], help="bytes per slice")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each goodput measurement")
    parser.add_argument("--urgent", type=int, default=25, help="urgent slices of each measurement")
    parser.add_argument("--paced", action="store_true", help="paced in software instead of a lab")
    options = parser.parse_args()
    if options.quick:
        options.rates, options.sizes, options.seconds, options.urgent = [100], [200_000], 1.5, 5
    if not options.paced and (why := permitted()):
        print(f"paced in software: {why}")
        options.paced = True
    with Report(
        "transport-paced" if options.paced else "transport",
        "Transport on paced links" if options.paced else "Transport on shaped links",
        "How much of a link is goodput under load, and how long does an urgent slice wait?",
        options,
    ) as report:
        report.plan(
            [
                f"{len(options.rates)} rates and without a limit, slices of {options.sizes} bytes, {HOSTS} hosts"
            ],
            minutes=minutes(options),
        )
        report.method(
            f"{HOSTS} processes on {'one paced loopback' if options.paced else 'hosts of a lab'}. Goodput: payload "
            "only, the least of all receiving hosts, from when the last of them received its first slice until the "
            "first of them received its last one. A slice's time is its bytes over the link's rate. The aim of an "
            "urgent slice is k + 1 slices' time plus 1 ms."
        )
        for rate in [*options.rates, None]:
            run(report, options, rate)


if __name__ == "__main__":
    main()
