"""What does a message cost on each data plane, and what on sockets with nothing on top?

    python -m engine.benchmarks.data_planes                # hosts of a lab, links shaped by the kernel
    python -m engine.benchmarks.data_planes --paced        # no permission for a lab: paced in software

Four hosts send each to each, a deep backlog of messages of one size, at each rate and without a limit. The planes take
turns, round after round, and each is compared with the Python one of its own round, at the same rate and load. Cost:
the processor time of all four processes, their kernel time included, over the messages. On a lab much of what the
kernel does for a message (shaping, the virtual links) is done in whichever process it interrupts, and counts there.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.bare import take_part_bare
from engine.benchmarks.harness.hosts import Hosts
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.party import Setting, take_part
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.transport import goodput
from engine.lab import permitted

PATTERN = "four hosts, each to each"
PLANES = ("python", "c", "bare")
LABELS = {"python": "Python", "c": "in C", "bare": "bare sockets"}


def measure(plane: str, rate_mbps: float | None, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What each size costs on a network of its own."""
    rate_bps = None if rate_mbps is None else round(rate_mbps * 1e6)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        setting = Setting(
            epoch_ns=time.monotonic_ns(),
            pacing=str(Path(directory) / "pacing") if options.paced else None,
            rate_bps=rate_bps,
            data_plane=None if plane == "bare" else plane,  # type: ignore[arg-type]
        )
        main = take_part_bare if plane == "bare" else take_part
        hosts = stack.enter_context(
            Hosts(main, 4, lab=not options.paced, rate_bps=rate_bps, argument=setting)
        )
        addresses = dict(enumerate(hosts.answers()))
        hosts.ask([addresses] * 4)
        found = []
        for size in options.sizes:
            goodput(hosts, PATTERN, size, rate_bps or 2e9, 0.3)  # windows and buffers grow
            one = goodput(hosts, PATTERN, size, rate_bps or 2e9, options.seconds)
            found.append({"plane": plane, "mbps": rate_mbps, **one})
        return found


def show(report: Report, found: list[dict[str, Any]]) -> None:
    """The medians of all rounds until now."""
    rows = []
    for mbps, size in dict.fromkeys((one["mbps"], one["size"]) for one in found):
        of = {
            plane: [one for one in found if (one["plane"], one["mbps"], one["size"]) == (plane, mbps, size)]
            for plane in PLANES
        }
        for plane, ones in of.items():
            if not ones:
                continue
            ratios = [one["cpu_us"] / base["cpu_us"] for one, base in zip(ones, of["python"], strict=False)]
            rate = statistics.median(one["bps"] for one in ones)
            rows.append(
                [
                    "no limit" if mbps is None else f"{mbps:g}",
                    size,
                    LABELS[plane],
                    f"{rate / 1e6:.4g}" + ("" if mbps is None else f" ({rate / mbps / 1e6:.1%})"),
                    statistics.median(one["cpu_us"] for one in ones),
                    statistics.median(one["kernel_us"] for one in ones),
                    statistics.median(one["switches"] for one in ones),
                    f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                    if ratios
                    else "",
                    cpu_use([one["cpu_share"] for one in ones]),
                ]
            )
    columns = [
        "Mbit/s",
        "message, bytes",
        "plane",
        "least goodput, Mbit/s",
        "CPU a message, µs",
        "of it in the kernel",
        "waits a message",
        "over Python's CPU",
        "CPU",
    ]
    report.table("A message from host to host", columns, rows)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="*", default=[100, 400, 1000], help="Mbit/s")
    parser.add_argument("--sizes", type=int, nargs="+", default=[13_340, 200_000], help="bytes per message")
    parser.add_argument("--rounds", type=int, default=5, help="of everything")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--planes", nargs="+", choices=PLANES, default=list(PLANES))
    parser.add_argument("--no-unlimited", action="store_true", help="leave out what has no limit")
    parser.add_argument("--paced", action="store_true", help="paced in software instead of a lab")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    if options.quick:
        options.rates, options.sizes, options.seconds, options.rounds = [100], [13_340], 1.0, 1
    if not options.paced and (why := permitted()):
        print(f"paced in software: {why}")
        options.paced = True
    rates = [*options.rates, *([] if options.no_unlimited else [None])]
    with Report(
        "data-planes-paced" if options.paced else "data-planes",
        "What a message costs on each data plane",
        "How much processor time does a message take, from send to its handler, on each data plane?",
        options,
    ) as report:
        report.plan(
            [f"{PATTERN}, {len(rates)} rates, messages of {options.sizes} bytes, {', '.join(options.planes)}"],
            minutes=options.rounds * len(rates) * len(options.planes)
            * (len(options.sizes) * (options.seconds + 0.5) + 4) / 60,
        )  # fmt: skip
        report.method(
            "Four processes on "
            + ("one paced loopback" if options.paced else "hosts of a lab")
            + ", which send each to each. Medians of the rounds; the ratio is that of each round, with its least and "
            "most. CPU a message: processor time of the four processes over the messages that came. Waits: how often a "
            "thread began to wait, over the messages. Bare sockets: the same messages over the same connections from "
            f"one loop without priorities, credit or handlers. Goodput as in `transport.py`. {BUSY}"
        )
        found: list[dict[str, Any]] = []
        for _ in range(options.rounds):
            for rate in rates:
                for plane in options.planes:
                    if plane == "bare" and options.paced and rate is not None:
                        continue  # nothing would limit it
                    measured = measure(plane, rate, options)
                    report.raw(measured)
                    found += measured
            show(report, found)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
