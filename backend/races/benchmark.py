"""Does the race that the demo begins with come to the same verdict every time, on two cores, whatever else they do? The
demo's race, again and again on a real server: half of them alone on the machine, half beside busy loops.

    python -m backend.races.benchmark              # ten races, five of them beside two busy loops
    python -m backend.races.benchmark --quick      # two races, one of them beside loops
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.cli.background import BackgroundServer
from backend.client import Client
from backend.races.demo import race
from backend.races.ranking import rank
from backend.schemas.races import RaceView, Standing
from backend.settings import Settings
from engine.benchmarks.harness.report import Report, arguments
from engine.lab.permission import permitted

BASELINE, FLAGSHIP = "parameter-server", "p3"
MOST_PROCESSORS = 0.7
"""Of all processors: with more, they would be part of the answer."""
COLUMNS = (
    "race", "beside", "p3 over parameter-server", "95 %", "significant", "fastest", "processors, p3", "limits p3",
    "seconds",
)  # fmt: skip


@contextmanager
def loops(count: int) -> Iterator[None]:
    """So many processes that compute without a pause, while the block runs."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def verdict(client: Client, found: RaceView) -> dict[str, Any]:
    """What the race says of the two, compared with each other alone."""
    (ranking,) = found.rankings
    by_name = {standing.name: standing for standing in ranking.standings}
    two = {0: _iterations(client, by_name[BASELINE]), 1: _iterations(client, by_name[FLAGSHIP])}
    first, second = rank(two)
    ahead = first.member == 1
    times, interval = second.times_fastest or float("nan"), second.interval or (float("nan"), float("nan"))
    low, high = interval if ahead else (1 / interval[1], 1 / interval[0])
    flagship = by_name[FLAGSHIP]
    return {
        "ratio": times if ahead else 1 / times,
        "low": low,
        "high": high,
        "significant": ahead and second.significant,
        "fastest": next(standing.name for standing in ranking.standings),
        "processors": flagship.processors.busy if flagship.processors else None,
        "limit": flagship.limit.kind if flagship.limit else None,
        "iteration_ms": {name: standing.iteration_ms for name, standing in by_name.items()},
        "sentence": ranking.sentence,
    }


def _iterations(client: Client, standing: Standing) -> dict[int, float]:
    """Round -> median time of an iteration."""
    found = {number: client.summary(job).iteration_ms for number, job in enumerate(standing.job_ids)}
    return {number: ms for number, ms in found.items() if ms is not None}


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--races", type=int, default=10)
    parser.add_argument("--busy", type=int, default=5, help="how many of them beside busy loops")
    parser.add_argument("--loops", type=int, default=2, help="how many loops")
    options = parser.parse_args()
    if options.quick:
        options.races, options.busy = 2, 1
    title = "The demo's race, again and again"
    question = "Does it come to the same verdict every time, alone and beside busy loops?"
    with Report("demo-race", title, question, options) as report:
        _run(options, report)
    return report.exit_code()


def _run(options: argparse.Namespace, report: Report) -> None:
    spec = race(lab=permitted() is None)
    names = ", ".join(member.strategy for member in spec.members)
    report.plan([f"{options.races} races of {names}"], minutes=3 * options.races)
    report.method(
        f"VGG-19 on four hosts, {spec.job.rehearsed}; {names}; {spec.rounds} rounds a race, a job at a time. Each"
        f" race's ratio is the mean over its rounds, its interval Student's t over them. The last {options.busy} run"
        f" beside {options.loops} processes that compute without a pause. Processors: how busy all of them were."
    )
    rows: list[list[Any]] = []
    seen: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="trainyard-races-") as folder:
        wanted = Settings(data_dir=Path(folder), port=0)
        with BackgroundServer(wanted) as server, Client(server.settings.address) as client:
            for number in range(options.races):
                beside = options.loops if number >= options.races - options.busy else 0
                begun = time.monotonic()
                with loops(beside):
                    ended = client.wait_for_race(client.start_race(spec).id)
                took = time.monotonic() - begun
                found = verdict(client, ended) | {"race": number, "loops": beside, "seconds": took}
                seen.append(found)
                report.raw([found])
                rows.append(_row(found))
                report.table("Verdicts", COLUMNS, rows)
    quiet = [one["processors"] for one in seen if not one["loops"]]
    ahead = sum(one["significant"] for one in seen)
    report.aims(
        [
            ("p3 is significantly ahead of parameter-server in every race", ahead, ahead == len(seen)),
            (
                f"processors at most {MOST_PROCESSORS:.0%} busy with p3, without loops",
                max(quiet),
                max(quiet) <= MOST_PROCESSORS,
            ),
        ]
    )


def _row(found: dict[str, Any]) -> list[Any]:
    return [
        found["race"] + 1,
        f"{found['loops']} loops" if found["loops"] else "nothing",
        found["ratio"],
        f"{found['low']:.3f} to {found['high']:.3f}",
        "yes" if found["significant"] else "NO",
        found["fastest"],
        f"{found['processors']:.0%}",
        found["limit"],
        found["seconds"],
    ]


if __name__ == "__main__":
    sys.exit(main())
