"""How fast does the service take telemetry, while somebody looks on?

A server of its own (`trainyard serve` in a process, with SQLite or a PostgreSQL), a job of several workers whose
batches come over HTTP four times a second each, and an open page: its live feed, and the figures that it asks for, once
a second.
First at a fixed rate, then as fast as the server takes them: the limit. At the end everything sent must be in
the database, once. Client and server share two cores, on a larger machine, too. Exit code 1 where a full run misses
an aim: the rate kept, and commits within 250 ms at the 99th percentile.

Run: `python -m backend.ingest.benchmark --rate 50000 --seconds 300`, and with `--database postgres`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.client import Client
from backend.db import Database
from backend.db.models import Attempt, Batch, Job, LayerTotal, StepRow
from backend.executors.environment import inherited
from backend.ingest.benchmark_load import FLUSH_S, SLICES, Mix, Sender, together
from backend.ingest.benchmark_store import NAMES, Store, cpu_s, store
from backend.ingest.tokens import new_token, token_sha256
from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.report import Report, arguments

WORKERS = 4
CORES = 2
AIM_MS = 250.0
"""From when a batch was due to its acknowledgement, at the 99th percentile."""
SPEC: dict[str, Any] = {
    "name": "ingest benchmark",
    "model": {"name": "vgg19"},
    "data": {"name": "synthetic", "options": {"shape": [3, 224, 224], "classes": 1000, "samples": 1024}},
    "strategy": {"name": "p3"},
    "cluster": {"workers": WORKERS},
    "training": {"steps": 1_000_000, "global_batch": 128},
}
FIGURES = ("timeline", "utilization", "heatmap", "step-time", "loss", "throughput")


@contextmanager
def server(data_dir: Path, database_url: str) -> Iterator[tuple[str, int]]:
    """A server that starts no jobs; its address and process id."""
    environment = inherited() | {
        "TRAINYARD_DATA_DIR": str(data_dir),
        "TRAINYARD_DATABASE_URL": database_url,
        "TRAINYARD_SCHEDULER": "false",
        "TRAINYARD_CPU_DEVICES": str(WORKERS),
    }
    command = [sys.executable, "-m", "backend.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        if not url:
            raise RuntimeError("the server did not start: its error stands above")
        try:
            yield url, process.pid
        finally:
            process.terminate()


def add_attempt(database: Database, job_id: str, token: str) -> int:
    """An attempt that runs, without any process: what the scheduler would have written."""

    def write(session: Session) -> int:
        job = session.get_one(Job, job_id)
        now = time.time_ns()
        attempt = Attempt(
            job=job,
            number=1,
            state="running",
            parties=[f"worker {n}" for n in range(WORKERS)],
            token_sha256=token_sha256(token),
            epoch_unix_ns=now,
            directory="",
            created_unix_ns=now,
        )
        job.state, job.started_unix_ns, job.revision = "running", now, job.revision + 1
        session.add(attempt)
        session.flush()
        return attempt.id

    return database.writer.run(write)


class Page:
    """An open page: listens to the live feed, and asks for the job and its figures once a second."""

    def __init__(self, url: str, job_id: str) -> None:
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=120, trust_env=False)
        self._job_id = job_id
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self.notices = 0
        self.latency_s: list[float] = []
        self._feed = threading.Thread(target=self._listen, args=(url,), daemon=True)
        self._viewer = threading.Thread(target=self._view, daemon=True)
        self._feed.start()
        self._viewer.start()

    def close(self) -> None:
        """Raises what went wrong while it was open."""
        self._stop.set()
        self._viewer.join()
        if self._failure is not None:
            raise self._failure

    def _listen(self, url: str) -> None:
        with (
            httpx.Client(timeout=None, trust_env=False) as http,
            http.stream("GET", f"{url}/api/v1/notices") as feed,
        ):
            for line in feed.iter_lines():
                self.notices += line.startswith("id:")
                if self._stop.is_set():
                    return

    def _view(self) -> None:
        try:
            self._look()
        except Exception as error:
            self._failure = error

    def _look(self) -> None:
        paths = [f"/jobs/{self._job_id}", *(f"/jobs/{self._job_id}/figures/{name}" for name in FIGURES)]
        while not self._stop.is_set():
            begin = time.perf_counter()
            for path in paths:
                asked = time.perf_counter()
                self._http.get(path).raise_for_status()
                self.latency_s.append(time.perf_counter() - asked)
            self._stop.wait(max(0.0, 1.0 - (time.perf_counter() - begin)))


def milliseconds(values: list[float], percent: float) -> float:
    return float(np.percentile(values, percent) * 1e3) if values else float("nan")


def check(database: Database, attempt: int, senders: list[Sender], mix: Mix) -> None:
    """Everything sent is there, once. Raises RuntimeError saying what is not."""
    batches = sum(sender.sent for sender in senders)
    sent = {"batches": batches, "events": batches * mix.per_batch, "steps": batches * mix.steps}
    with database.read() as session:
        stored = session.execute(
            select(func.count(), func.sum(Batch.events)).where(Batch.attempt_id == attempt)
        ).one()
        rows = select(func.count()).select_from(StepRow).where(StepRow.attempt_id == attempt)
        counted = select(func.sum(LayerTotal.count)).where(LayerTotal.attempt_id == attempt)
        found = {"batches": stored[0], "events": stored[1], "steps": session.scalar(rows)}
        totals = session.scalar(counted)
    if found != sent or totals != sent["events"]:
        raise RuntimeError(f"sent {sent}, stored {found}, counted in totals {totals}")


def seal(url: str, attempt: int, token: str, senders: list[Sender]) -> None:
    body = json.dumps({str(party): sender.sent - 1 for party, sender in enumerate(senders)}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/v1/attempts/{attempt}/seal", body, headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status == 200


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=int, default=50_000, help="events per second")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long at that rate")
    parser.add_argument("--rush", type=float, default=60.0, help="how many seconds' worth as fast as it goes")
    parser.add_argument("--database", choices=list(NAMES), default="sqlite", help="that takes them")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rush = min(options.seconds, 15.0), min(options.rush, 5.0)
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)  # what is started from here on inherits it
    with Report(
        "ingest" if options.database == "sqlite" else "ingest-postgres",
        f"Telemetry into {NAMES[options.database]}",
        "How fast does the service take events?",
        options,
    ) as report:
        steps = [f"{options.rate} events/s for {options.seconds:g} s", "then as fast as they are taken"]
        report.plan(steps, minutes=(options.seconds + options.rush + 20) / 60)
        with (
            tempfile.TemporaryDirectory() as directory,
            store(options.database, Path(directory)) as opened,
            server(Path(directory), opened.url) as (url, pid),
        ):
            measure(report, options, opened, url, pid)
    sys.exit(report.exit_code())


def measure(report: Report, options: Any, opened: Store, url: str, pid: int) -> None:
    token = new_token()
    with Client(url) as client:
        job = client.submit(SPEC)
    database = Database(opened.url)
    attempt = add_attempt(database, job.id, token)
    mix = Mix(layers=len(job.plan.layers), events=round(options.rate * FLUSH_S / WORKERS))
    senders = [Sender(url, attempt, token, party, mix) for party in range(WORKERS)]
    rate = mix.per_batch * WORKERS / FLUSH_S
    report.method(
        f"{WORKERS} workers, each a batch every {FLUSH_S * 1e3:g} ms with {mix.steps} steps of {mix.layers} layers, "
        f"{mix.per_batch} events: per layer and step a wait, forward, backward, update and {SLICES} slices sent and "
        "received; with their totals, link bins and 10 ms counter samples. All workers send at the same moment. An "
        "acknowledgement follows the commit; its time counts from when the batch was due. The page listens to the feed "
        f"and asks for the job and {len(FIGURES)} figures once a second. Client and server share "
        f"{len(os.sched_getaffinity(0))} cores."
    )

    page, used, below = Page(url, job.id), cpu_s(pid), opened.cpu_s()
    begin = time.perf_counter() + 0.5
    took = together([partial(sender.pace, options.seconds, begin) for sender in senders])
    late = time.perf_counter() - begin - options.seconds
    used, below = cpu_s(pid) - used, opened.cpu_s() - below
    latency = [value for sender in senders for value in sender.latency_s]
    batches, size = sum(sender.sent for sender in senders), sum(sender.bytes for sender in senders)
    check(database, attempt, senders, mix)
    report.table(
        "At a fixed rate, with a page open",
        ["events/s", "seconds", "events", "lost", "commit p50 ms", "p99 ms", "max ms", "answers to the page p95 ms",
         "server's CPU", "database's CPU"],
        [[round(rate), took, batches * mix.per_batch, 0, milliseconds(latency, 50), milliseconds(latency, 99),
          max(latency) * 1e3, milliseconds(page.latency_s, 95), f"{used / took:.0%}", f"{below / took:.0%}"]],
    )  # fmt: skip
    # The last batches are due before the time is over; that nothing is lost, `check` has seen.
    taken = batches * mix.per_batch / (options.seconds + max(0.0, late))
    p99 = milliseconds(latency, 99)
    report.aims(
        [
            (f"{options.rate:,} events/s for {options.seconds:g} s", f"{taken:,.0f}", taken >= options.rate),
            (f"commit within {AIM_MS:g} ms at the 99th percentile", f"{p99:.0f} ms", p99 <= AIM_MS),
        ]
    )
    report.note(f"{page.notices} notices reached the page; {len(page.latency_s)} answers.")

    count = max(1, round(options.rush / FLUSH_S))
    ready = [sender.prepare(count) for sender in senders]
    used = cpu_s(pid)
    took = together([partial(sender.rush, bodies) for sender, bodies in zip(senders, ready, strict=True)])
    used = cpu_s(pid) - used
    check(database, attempt, senders, mix)
    events = count * WORKERS * mix.per_batch
    report.table(
        "The limit: as fast as they are taken, with a page open",
        ["events/s", "seconds", "events", "lost", "server's CPU", "CPU us per event", "commit p99 ms"],
        [[round(events / took), took, events, 0, f"{used / took:.0%}", used / events * 1e6,
          milliseconds([v for sender in senders for v in sender.latency_s[-count:]], 99)]],
    )  # fmt: skip
    page.close()
    seal(url, attempt, token, senders)
    stored = opened.bytes(database)
    total = sum(sender.sent for sender in senders) * mix.per_batch
    report.note(
        f"{size / (batches * mix.per_batch):.3g} bytes per event on the wire, {stored / total:.3g} in the database."
    )
    for sender in senders:
        sender.close()
    database.close()


if __name__ == "__main__":
    main()
