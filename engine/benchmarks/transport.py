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
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from engine.benchmarks.harness.hosts import Hosts
from engine.benchmarks.harness.machine import MOST_CPU, CpuMeter, cpu_use
from engine.benchmarks.harness.party import URGENT, USUAL, Setting, Task, take_part
from engine.benchmarks.harness.report import Report, arguments
from engine.lab import permitted

HOSTS = 5
SPACING = 10
"""Slice times between two urgent ones."""
AIM_GOODPUT = 0.93
Samples: TypeAlias = dict[tuple[int, Any], list[dict[str, Any]]]
"""By size, and pattern or number of senders: what each round found."""
Aim: TypeAlias = tuple[str, str, bool, float]
"""What was wanted, what was found, whether that holds, and the processors' use meanwhile."""
PATTERNS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "two hosts, both ways": ((0, 1), (1, 0)),
    "three senders, one port": ((1, 0), (2, 0), (3, 0)),
    "four hosts, each to each": tuple((i, j) for i in range(4) for j in range(4) if i != j),
}
"""(sender, receiver)"""


def goodput(hosts: Hosts, pattern: str, size: int, bps: float, seconds: float) -> dict[str, Any]:
    """The least goodput of the pattern's receivers in bit/s, while all of them receive; the CPU use, and what a message
    cost the processes that received."""
    pairs = PATTERNS[pattern]
    busiest = max(sum(to == host for _, to in pairs) for host in range(HOSTS))
    slices = max(20, round(bps * seconds / 8 / size / busiest))
    work = [
        Task(
            size=size,
            sends=tuple((to, slices) for sender, to in pairs if sender == host),
            expects=slices * sum(to == host for _, to in pairs),
        )
        for host in range(hosts.count)
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
    messages, costs = slices * len(pairs), [answer.cost for answer in answers]
    return {
        "pattern": pattern,
        "size": size,
        "bps": min(reached),
        "all_bps": reached,
        "cpu_us": sum(cost.cpu_ns for cost in costs) / 1e3 / messages,
        "kernel_us": sum(cost.kernel_ns for cost in costs) / 1e3 / messages,
        "switches": sum(cost.switches for cost in costs) / messages,
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
    with CpuMeter() as cpu:
        arrivals = hosts.ask(work)[0].arrivals
    busy_until = max(at for at, priority, _ in arrivals if priority == USUAL)
    delays = [
        (at - queued) / 1e9 for at, priority, queued in arrivals if priority == URGENT and at < busy_until
    ]
    return {
        "senders": senders,
        "size": size,
        "slice_s": slice_s,
        "delays_s": delays,
        "cpu_share": cpu.share(),
    }


def run(report: Report, options: argparse.Namespace, rate_mbps: float | None) -> list[Aim]:
    """Everything at one rate, round after round; answers what was wanted and what was found."""
    rate_bps = None if rate_mbps is None else round(rate_mbps * 1e6)
    filled: Samples = {}
    waited: Samples = {}
    with tempfile.TemporaryDirectory() as directory:
        pacing = str(Path(directory) / "pacing") if options.paced else None
        setting = Setting(epoch_ns=time.monotonic_ns(), pacing=pacing, rate_bps=rate_bps)
        with Hosts(take_part, HOSTS, lab=not options.paced, rate_bps=rate_bps, argument=setting) as hosts:
            addresses = dict(enumerate(hosts.answers()))
            hosts.ask([addresses] * HOSTS)
            for _ in range(options.rounds):
                for size in options.sizes:
                    for pattern in PATTERNS:
                        found = goodput(hosts, pattern, size, rate_bps or 8e9, options.seconds)
                        filled.setdefault((size, pattern), []).append(found)
                        report.raw([{"mbps": rate_mbps, **found}])
                    for senders in (1, 2, 3, 4) if rate_bps else ():
                        found = urgent(hosts, senders, size, rate_bps or 0, options.urgent)
                        waited.setdefault((size, senders), []).append(found)
                        report.raw([{"mbps": rate_mbps, **found}])
                aims = _show(report, rate_bps, filled, waited)
    return aims


def _show(report: Report, rate_bps: int | None, filled: Samples, waited: Samples) -> list[Aim]:
    """Tables of all rounds until now."""
    shown = f"{rate_bps / 1e6:g} Mbit/s" if rate_bps else "no limit"
    aims: list[Aim] = []
    rows = []
    for (size, pattern), samples in filled.items():
        mbps, cpu = [found["bps"] / 1e6 for found in samples], _median_of(samples, "cpu_share")
        share = statistics.median(mbps) * 1e6 / rate_bps if rate_bps else None
        rows.append([size, pattern, _spread(mbps), "" if share is None else f"{share:.1%}", cpu_use([cpu])])
        if share is not None:
            aim = f"{shown}, slices of {size}, {pattern}: {AIM_GOODPUT:.0%} of the rate"
            aims.append((aim, f"{share:.1%}", share >= AIM_GOODPUT, cpu))
    columns = ["slice, bytes", "who sends", "least goodput, Mbit/s", "of the rate", "CPU"]
    report.table(f"Goodput, {shown}", columns, rows)
    rows = []
    for (size, senders), samples in waited.items():
        delays = [delay * 1e3 for found in samples for delay in found["delays_s"]]
        if not delays:
            rows.append([size, senders, 0, "the backlog ran dry", *[""] * 5])
            aims.append((f"{shown}, slices of {size}, {senders} senders", "the backlog ran dry", False, 0.0))
            continue
        middles = [statistics.median(found["delays_s"]) * 1e3 for found in samples if found["delays_s"]]
        middle, cpu = statistics.median(delays), _median_of(samples, "cpu_share")
        aim_ms = ((senders + 1) * samples[0]["slice_s"] + 1e-3) * 1e3
        held = "yes" if middle <= aim_ms else "NO"
        rows.append(
            [size, senders, len(delays), middle, _spread(middles), max(delays), cpu_use([cpu]), aim_ms, held]
        )
        aim = f"{shown}, slices of {size}, {senders} senders: {aim_ms:.3g} ms"
        aims.append((aim, f"{middle:.3g} ms", middle <= aim_ms, cpu))
    if rows:
        columns = [
            "slice, bytes",
            "senders",
            "urgent",
            "median, ms",
            "medians of the rounds",
            "worst, ms",
            "CPU",
        ]
        report.table(f"Urgent slices, {shown}", [*columns, "aim, ms", "aim met"], rows)
    return aims


def _median_of(samples: Sequence[Mapping[str, Any]], key: str) -> float:
    return statistics.median(found[key] for found in samples)


def _spread(values: Sequence[float]) -> str:
    """The median; of several its least and most, too."""
    middle = f"{statistics.median(values):.4g}"
    return f"{middle} ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else middle


def minutes(options: argparse.Namespace) -> float:
    """What all takes, roughly."""
    goodput_s = len(options.sizes) * len(PATTERNS) * options.seconds
    urgent_s = sum(
        4 * 1.6 * SPACING * (options.urgent + 2) * size * 8 / rate / 1e6
        for size in options.sizes
        for rate in options.rates
    )
    return options.rounds * ((goodput_s + 8) * (len(options.rates) + 1) + urgent_s) / 60


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="*", default=[100, 1000], help="Mbit/s")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200_000, 13_340], help="bytes per slice")
    parser.add_argument("--rounds", type=int, default=3, help="of everything")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each goodput measurement")
    parser.add_argument("--urgent", type=int, default=25, help="urgent slices of each measurement")
    parser.add_argument("--paced", action="store_true", help="paced in software instead of a lab")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    if options.quick:
        options.rates, options.sizes, options.seconds, options.urgent = [100], [200_000], 1.5, 5
        options.rounds = 1
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
            "urgent slice is k + 1 slices' time plus 1 ms. Aims are held to the median, where the processors were at "
            f"most {MOST_CPU:.0%} busy: beyond (BUSY), it is this machine that is measured. CPU is the median, too."
        )
        aims: list[Aim] = []
        for rate in [*options.rates, None]:
            aims += run(report, options, rate)
        report.aims([aim[:3] for aim in aims if aim[3] <= MOST_CPU])
        busy = [
            f"{aim} ({found}, CPU {cpu:.0%})" for aim, found, held, cpu in aims if cpu > MOST_CPU and not held
        ]
        if busy:
            report.note("Missed where the processors were busy: " + "; ".join(busy))
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
