"""Does a race find a difference where there is none? p3 raced against itself, twenty times, each a race of four rounds
through the service. At most one of them may call a difference significant: the error of 5 % that a race's intervals
are made for.

    python -m backend.races.benchmark_itself             # twenty races
    python -m backend.races.benchmark_itself --quick     # two races
    python -m backend.races.benchmark_itself --members 4 # four of them, of which any two may come to be compared
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from backend.cli.background import BackgroundServer
from backend.client import Client
from backend.races.spec import MemberSpec, RaceSpec
from backend.rounding import TIMES_FASTEST, number
from backend.schemas.races import RaceView
from backend.settings import Settings
from engine.benchmarks.harness.report import Report, arguments
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain

STRATEGY = "p3"
MOST = 0.05
"""Of all races: so many may call a difference significant."""
COLUMNS = ("race", "slower by", "95 %", "significant", "seconds")
JOB = {
    "name": "itself",
    "model": {"name": "mlp"},
    "data": {"name": "digits"},
    "cluster": {"workers": 2},
    "network": {"rate": "100Mbit"},
    "training": {"steps": 40, "global_batch": 64},
    "evaluation": {"every_epochs": None, "at_end": False},
}
"""Small, and held up by a link, as what people race is: a step takes some milliseconds."""


def race(members: int) -> RaceSpec:
    """The same strategy under as many names."""
    same = tuple(MemberSpec(strategy=STRATEGY, name=f"{STRATEGY} {n}") for n in range(1, members + 1))
    return RaceSpec(job=from_plain(JobSpec, JOB), members=same)


def verdict(found: RaceView) -> dict[str, Any]:
    """What the race says of who it calls the slowest."""
    (ranking,) = found.rankings
    slowest = max(ranking.standings, key=lambda one: one.times_fastest or 0.0)
    return {
        "ratio": slowest.times_fastest,
        "low": slowest.low,
        "high": slowest.high,
        "significant": any(standing.significant for standing in ranking.standings),
        "iteration_ms": {standing.name: standing.iteration_ms for standing in ranking.standings},
        "rounds": [standing.rounds for standing in ranking.standings],
        "sentence": ranking.sentence,
    }


def main() -> int:
    """Exit status 1 where too many of a full run's races found a difference."""
    parser = arguments(__doc__)
    parser.add_argument("--races", type=int, default=20)
    parser.add_argument("--members", type=int, default=2, help="how often the strategy is there; default: 2")
    options = parser.parse_args()
    if options.quick:
        options.races = 2
    title = f"{STRATEGY} raced against itself"
    with Report(
        "itself-race", title, "Does a race find a difference where there is none?", options
    ) as report:
        _run(options, report)
    return report.exit_code()


def _run(options: argparse.Namespace, report: Report) -> None:
    spec = race(options.members)
    jobs = options.members * spec.rounds
    report.plan([f"{options.races} races of {jobs} jobs"], minutes=0.05 * jobs * options.races)
    job, steps = spec.job, spec.job.training.steps
    report.method(
        f"{job.model.name} on {job.data.name}, {job.cluster.workers} workers at {job.network.rate}, {steps} steps;"
        f" {STRATEGY} under {options.members} names, {spec.rounds} rounds a race, a job at a time. Whether a"
        " difference is significant is what the race says."
    )
    rows: list[list[Any]] = []
    seen: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="trainyard-races-") as folder:
        wanted = Settings(data_dir=Path(folder), port=0)
        with BackgroundServer(wanted) as server, Client(server.settings.address) as client:
            for place in range(options.races):
                begun = time.monotonic()
                ended = client.wait_for_race(client.start_race(spec).id)
                if ended.state != "finished" or ended.jobs_failed:
                    raise RuntimeError(f"race {place + 1} {ended.state}: {ended.rankings[0].sentence}")
                found = verdict(ended) | {"race": place + 1, "seconds": time.monotonic() - begun}
                seen.append(found)
                report.raw([found])
                rows.append(_row(found))
                report.table("Verdicts", COLUMNS, rows)
    wrong = sum(one["significant"] for one in seen)
    report.aims(
        [
            (
                f"a difference in at most {MOST:.0%} of races",
                f"{wrong} of {len(seen)}",
                wrong <= MOST * len(seen),
            )
        ]
    )


def _row(found: dict[str, Any]) -> list[Any]:
    return [
        found["race"],
        number(found["ratio"], TIMES_FASTEST),
        " to ".join(number(end, TIMES_FASTEST) for end in (found["low"], found["high"])),
        "YES" if found["significant"] else "no",
        found["seconds"],
    ]


if __name__ == "__main__":
    sys.exit(main())
