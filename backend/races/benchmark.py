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
from backend.rounding import SPEED_UP, number
from backend.schemas.races import RaceView
from backend.settings import Settings
from engine.benchmarks.harness.report import Report, arguments
from engine.lab.permission import permitted
from engine.telemetry.comparison import certainty

BASELINE, FLAGSHIP = "parameter-server", "p3"
MOST_PROCESSORS = 0.7
"""Of all processors: with more, they would be part of the answer."""
COLUMNS = (
    "race", "beside", "p3 over parameter-server", "95 %", "significant", "fastest", "limits", "processors", "seconds",
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


def verdict(found: RaceView) -> dict[str, Any]:
    """What the race itself says of the two, and what limited each member."""
    (ranking,) = found.rankings
    by_name = {standing.name: standing for standing in ranking.standings}
    flagship = by_name[FLAGSHIP]
    value, low, high = flagship.speed_up, flagship.speed_up_low, flagship.speed_up_high
    sure = value is not None and low is not None and high is not None and certainty(value, (low, high))
    return {
        "ratio": value,
        "low": low,
        "high": high,
        "significant": sure == "certain" and value is not None and value > 1,
        "fastest": ranking.standings[0].name,
        "iteration_ms": {name: one.iteration_ms for name, one in by_name.items()},
        "limits": {name: one.limit.kind if one.limit else None for name, one in by_name.items()},
        "limited": {name: one.limit.sentence if one.limit else None for name, one in by_name.items()},
        "processors": {name: one.processors.busy for name, one in by_name.items() if one.processors},
        "sentence": ranking.sentence,
        "gains": ranking.gains,
    }


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
    report.plan([f"{options.races} races of {names}"], minutes=3.5 * options.races)
    report.method(
        f"VGG-19 on four hosts, {spec.job.rehearsed}; {names}; {spec.rounds} rounds a race, a job at a time. Ratio,"
        f" interval and limits are the race's own: of all pairs of its members. The last {options.busy} run beside"
        f" {options.loops} processes that compute without a pause. Processors: how busy all of them were."
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
                found = verdict(ended) | {"race": number, "loops": beside, "seconds": took}
                seen.append(found)
                report.raw([found])
                rows.append(_row(found))
                report.table("Verdicts", COLUMNS, rows)
    quiet = [one for one in seen if not one["loops"]]
    ahead = sum(one["significant"] for one in seen)
    busiest = max((share for one in quiet for share in one["processors"].values()), default=None)
    bound = sum(one["limits"][BASELINE] == "port" for one in quiet)
    report.aims(
        [
            ("p3 is significantly ahead of parameter-server in every race", ahead, ahead == len(seen)),
            (
                "a link limits parameter-server, without loops",
                f"{bound} of {len(quiet)}",
                bound == len(quiet),
            ),
            (
                f"processors at most {MOST_PROCESSORS:.0%} busy with any member, without loops",
                busiest,
                busiest is not None and busiest <= MOST_PROCESSORS,
            ),
        ]
    )


def _row(found: dict[str, Any]) -> list[Any]:
    return [
        found["race"] + 1,
        f"{found['loops']} loops" if found["loops"] else "nothing",
        number(found["ratio"], SPEED_UP),
        " to ".join(number(end, SPEED_UP) for end in (found["low"], found["high"])),
        "yes" if found["significant"] else "NO",
        found["fastest"],
        ", ".join(f"{name} {kind}" for name, kind in found["limits"].items()),
        ", ".join(f"{name} {share:.0%}" for name, share in found["processors"].items()),
        found["seconds"],
    ]


if __name__ == "__main__":
    sys.exit(main())
