"""How fast are lists and figures with much data? A database of thousands of jobs and one with millions of events, a
real server, its large job's telemetry coming in all the while, one page that listens, and every list and figure asked
for again and again. Exit code 1 where a full run misses an aim.

Run: `python -m backend.services.benchmark` (--quick: a tenth of the data; --database postgres).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from backend.db import Database
from backend.executors.environment import inherited
from backend.ingest.benchmark_store import NAMES, store
from backend.services.benchmark_asked import AIM_MS, Asked, requests
from backend.services.benchmark_fill import PER_LAYER, WORKERS, Large, add_large, add_others, live
from engine.benchmarks.harness.report import Report, arguments

EVENTS_PER_S = 5_000
ENOUGH = 0.95
"""Of these, that the server must take meanwhile: less would be another question."""
RIVAL_STEPS = 10
"""Of the job that the large one races with."""
PARTS = 4
"""Batches that a worker sends of one step."""
START_LIMIT_S = 120


@contextmanager
def served(directory: Path, database_url: str | None = None) -> Iterator[str]:
    """The address of a real server on that data, which starts no jobs; the database is a SQLite there, or another."""
    ours = {"TRAINYARD_DATA_DIR": str(directory), "TRAINYARD_SCHEDULER": "0"}
    if database_url is not None:
        ours["TRAINYARD_DATABASE_URL"] = database_url
    command = [sys.executable, "-m", "backend.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(command, env=inherited() | ours, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"at (http\S+)", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server did not start")
            yield found[1]
        finally:
            process.terminate()
            process.wait(START_LIMIT_S)


class Traffic:
    """A page that listens, and a job that sends, while the block runs."""

    def __init__(self, url: str, large: Large, *, events_per_s: float = EVENTS_PER_S) -> None:
        self._url, self._large, self._rate = url, large, events_per_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._listen, self._send)]
        self.events = 0
        self.ms: list[float] = []
        self.failed = ""

    def __enter__(self) -> Traffic:
        self._begun = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.seconds = time.monotonic() - self._begun
        self._threads[1].join(60)

    def _listen(self) -> None:
        address = f"{self._url}/api/v1/notices"
        with (
            contextlib.suppress(httpx.TransportError),  # the server has ended
            httpx.stream("GET", address, timeout=None, trust_env=False) as stream,
        ):
            for _ in stream.iter_raw():
                if self._stop.is_set():
                    return

    def _send(self) -> None:
        path = f"{self._url}/api/v1/attempts/{self._large.attempt}/batches"
        headers = {
            "Authorization": f"Bearer {self._large.token}",
            "Content-Type": "application/octet-stream",
        }
        with httpx.Client(timeout=60, trust_env=False, headers=headers) as client:
            for events, body in live(self._large, PARTS):
                begin = time.monotonic()
                if self._stop.wait(max(0.0, self._begun + self.events / self._rate - begin)):
                    return
                begin = time.monotonic()
                answer = client.post(path, content=body)
                self.ms.append(1e3 * (time.monotonic() - begin))
                if answer.status_code != 200:
                    self.failed = answer.text
                    return
                self.events += events


def ask(url: str, asked: list[Asked], rounds: int, pause_s: float) -> None:
    """Every request once per round, in turn, as one viewer does."""
    with httpx.Client(base_url=f"{url}/api/v1", timeout=120, trust_env=False) as client:
        for _ in range(rounds):
            for each in asked:
                begin = time.perf_counter()
                answer = client.get(each.path, params=each.query)
                each.ms.append(1e3 * (time.perf_counter() - begin))
                assert answer.status_code == 200, (each.name, answer.text[:500])
                each.size = len(answer.content)
                time.sleep(pause_s)


def options() -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--layers", type=int, default=1_000)
    parser.add_argument(
        "--events", type=int, help="of the large job; default: 10 million, --quick: 1 million"
    )
    parser.add_argument("--jobs", type=int, help="default: 5,000, --quick: 500")
    parser.add_argument("--rounds", type=int, help="default: 20, --quick: 4")
    parser.add_argument("--only", default="", help="only requests whose name holds this")
    parser.add_argument("--database", choices=list(NAMES), default="sqlite", help="that holds them")
    found = parser.parse_args()
    for name, whole, short in (("events", 10**7, 10**6), ("jobs", 5_000, 500), ("rounds", 20, 4)):
        if getattr(found, name) is None:
            setattr(found, name, short if found.quick else whole)
    return found


def main() -> None:
    given = options()
    name = "lists" if given.database == "sqlite" else f"lists-{given.database}"
    title = f"Lists and figures with much data in {NAMES[given.database]}"
    with Report(name, title, "How fast do they answer?", given) as report:
        report.plan(
            [
                f"one job of {given.layers:,} layers and {given.events:,} events, {given.jobs:,} others",
                f"{given.rounds} rounds of every list and figure at {EVENTS_PER_S:,} events/s",
            ],
            minutes=1.5 if given.quick else 8,
        )
        with (
            tempfile.TemporaryDirectory() as directory,
            store(given.database, Path(directory)) as opened,
        ):
            database = Database(opened.url)
            begin = time.perf_counter()
            others = add_others(database, given.jobs)
            filled = time.perf_counter()
            large = add_large(
                database, given.layers, given.events, home=Path(directory) / "jobs", baseline=others[-1]
            )
            took = time.perf_counter() - filled
            rival = add_large(database, given.layers, given.layers * PER_LAYER * WORKERS * RIVAL_STEPS)
            held = opened.bytes(database)
            database.close()
            events = large.steps * large.layers * PER_LAYER * WORKERS
            report.table(
                "The database",
                ["events", "steps", "other jobs", "MB", "s for the others", "s for the events", "events/s"],
                [
                    [
                        events,
                        large.steps,
                        given.jobs,
                        held / 1e6,
                        filled - begin,
                        took,
                        events / took,
                    ],
                ],
            )
            asked = [each for each in requests(large, rival, others) if given.only in each.name]
            with served(Path(directory), opened.url) as url, Traffic(url, large) as traffic:
                ask(url, asked, given.rounds, 0.0 if given.quick else 0.05)
        if traffic.failed:
            raise RuntimeError(f"a batch was refused: {traffic.failed}")
        sent = [float(np.percentile(traffic.ms, p)) for p in (50, 95)]
        report.table(
            "Telemetry meanwhile",
            ["events/s", "batches", "acknowledged, p50 ms", "p95 ms", "worst ms"],
            [[traffic.events / traffic.seconds, len(traffic.ms), *sent, max(traffic.ms)]],
        )
        report.table(
            f"Answers (aim: p95 within {AIM_MS:g} ms)",
            ["request", "times", "kB", "p50 ms", "p95 ms", "worst ms", "within"],
            [each.row() for each in sorted(asked, key=lambda each: -np.percentile(each.ms, 95))],
        )
        slow = sorted(each.name for each in asked if each.within is False)
        rate = traffic.events / traffic.seconds
        report.aims(
            [
                (f"every list and figure: p95 within {AIM_MS:g} ms", ", ".join(slow) or "all", not slow),
                (f"{EVENTS_PER_S:,} events/s taken meanwhile", f"{rate:,.0f}", rate >= ENOUGH * EVENTS_PER_S),
            ]
        )
    sys.exit(report.exit_code())


if __name__ == "__main__":
    main()
