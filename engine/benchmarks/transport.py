"""How long does an urgent slice wait behind full backlogs when k senders meet at one port?

Paced links, one process per party. Every sender keeps a deep backlog of slices to one server; the first one
then queues an urgent slice. Shown: time from queueing to its handler, in slice times and in ms, against the
aim of k + 1 slice times + 1 ms, and the rate that the server's ingress reached meanwhile.

Run: `python engine/benchmarks/transport.py` (about half a minute).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from engine.transport import AttemptClock, Endpoint, Header, Pacer

URGENT, USUAL = 0, 5
WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    senders: int
    size: int
    rate_bps: int
    path: str
    epoch_ns: int


def _party(index: int, setting: Setting, pipe: Connection) -> None:
    """The last party is the server; the others send."""
    senders, size, rate_bps = setting.senders, setting.size, setting.rate_bps
    names = [f"worker {number}" for number in range(senders)] + ["server 0"]
    clock = AttemptClock(setting.epoch_ns)
    arrivals: list[tuple[int, int, int]] = []
    changed = threading.Condition()

    def handle(header: Header, _payload: memoryview | None) -> None:
        with changed:
            arrivals.append((clock.now_ns(), header.priority, header.queued_ns))
            changed.notify()

    endpoint = Endpoint(
        index=index,
        names=names,
        hosts=names,
        clock=clock,
        deadline_s=WAIT_S,
        pacer=Pacer(setting.path, rate_bps),
    )
    endpoint.register(0, place=lambda _header: None, handle=handle)
    pipe.send(endpoint.listen())
    endpoint.connect(pipe.recv())
    if index == senders:
        backlog, urgent = pipe.recv()
        with changed:
            changed.wait_for(lambda: len(arrivals) == senders * backlog + urgent, WAIT_S)
        pipe.send(arrivals)
    else:
        backlog, urgent = pipe.recv()
        payload = bytes(size)
        usual = Header(kind=1, origin=index, priority=USUAL, payload_bytes=size)
        for _ in range(backlog):
            endpoint.send(senders, usual, [payload])
        for _ in range(urgent if index == 0 else 0):
            time.sleep(10 * size * 8 / rate_bps)
            header = Header(kind=1, origin=0, priority=URGENT, payload_bytes=size, queued_ns=clock.now_ns())
            endpoint.send(senders, header, [payload])
    endpoint.close()


def measure(senders: int, size: int, rate_bps: int, urgent: int = 5) -> tuple[list[float], float]:
    """(delays of the urgent slices in seconds, bit/s that reached the handler over the whole run)."""
    backlog = 15 * (urgent + 2)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        setting = Setting(
            senders=senders, size=size, rate_bps=rate_bps, path=f"{directory}/pacer",
            epoch_ns=time.monotonic_ns(),
        )  # fmt: skip
        pipes, processes = [], []
        for index in range(senders + 1):
            ours, theirs = context.Pipe()
            processes.append(context.Process(target=_party, args=(index, setting, theirs)))
            processes[-1].start()
            pipes.append(ours)
        addresses = {index: pipe.recv() for index, pipe in enumerate(pipes)}
        for pipe in pipes:
            pipe.send(addresses)
        for pipe in reversed(pipes):
            pipe.send((backlog, urgent))
        arrivals = pipes[-1].recv()
        for process in processes:
            process.join(WAIT_S)
    times = [at for at, _, _ in arrivals]
    delays = [(at - queued) / 1e9 for at, priority, queued in arrivals if priority == URGENT]
    return delays, (len(arrivals) - 1) * size * 8 / ((times[-1] - times[0]) / 1e9)


def main(rates_mbps: Sequence[int], size: int) -> None:
    """Print the table."""
    print(f"{os.cpu_count()} cores, slices of {size / 1000:g} kB, load {os.getloadavg()[0]:.1f}")
    print(
        "| Mbit/s | senders | urgent, slice times (median, worst) | ms (median, worst) | aim ms | reached |"
    )
    print("|---|---|---|---|---|---|")
    for rate in rates_mbps:
        slice_s = size * 8 / (rate * 1e6)
        for senders in (1, 2, 4):
            delays, reached_bps = measure(senders, size, rate * 10**6)
            middle, worst = statistics.median(delays), max(delays)
            print(
                f"| {rate} | {senders} | {middle / slice_s:.2f}, {worst / slice_s:.2f} "
                f"| {middle * 1e3:.1f}, {worst * 1e3:.1f} | {((senders + 1) * slice_s + 1e-3) * 1e3:.1f} "
                f"| {reached_bps / rate / 1e4:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 300, 1000], help="Mbit/s")
    parser.add_argument("--size", type=int, default=200_000, help="bytes per slice")
    options = parser.parse_args()
    main(options.rates, options.size)
