"""How long does a terminal's user wait for an answer? A database of thousands of jobs, hundreds of races and a job of
millions of events, a real server, and commands as people type them, each in a process of its own, again and again.
Exit code 1 where a full run misses an aim.

Run: `python -m backend.cli.benchmark` (--quick: a tenth of the data).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from backend.cli.main import COMMANDS
from backend.db import Database
from backend.db.engine import sqlite_url
from backend.executors.environment import inherited
from backend.services.benchmark import served
from backend.services.benchmark_fill import PER_LAYER, WORKERS, add_large, add_others, add_races
from engine.benchmarks.harness.report import Report, arguments

AIM_S = 1.0
"""For every command, the largest time of all."""
LAYERS = 1_000
RIVAL_STEPS = 10
"""Of the job that the large one is compared with."""
COLUMNS = ("command", "times", "first s", "median s", "largest s", "processor s, median", "bytes", "within")


class Asked:
    """A command, and how long its runs took, from the start of its process to its end."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._command = [sys.executable, *arguments]
        self.seconds: list[float] = []
        self.processor_s: list[float] = []
        self.size = 0

    @classmethod
    def of(cls, name: str, *arguments: str) -> Asked:
        """`trainyard` with these arguments."""
        assert arguments[0] in COMMANDS
        return cls(name, ["-m", "backend.cli.main", *arguments])

    def run(self, environment: Mapping[str, str]) -> None:
        """Once. Raises RuntimeError where the command fails."""
        begun = time.perf_counter()
        with subprocess.Popen(
            self._command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            said = process.stdout.read()
            before = _children_s()
            status = process.wait()
        self.seconds.append(time.perf_counter() - begun)
        self.processor_s.append(_children_s() - before)
        if status:
            raise RuntimeError(f"{self.name} ended with {status}: {said.decode(errors='replace')[-500:]}")
        self.size = len(said)

    def row(self) -> list[object]:
        first, *later = self.seconds
        cost = float(np.median(self.processor_s[1:]))
        middle = float(np.median(later))
        return [
            self.name,
            len(later),
            first,
            middle,
            self.largest_s,
            cost,
            self.size,
            self.largest_s <= AIM_S,
        ]

    @property
    def largest_s(self) -> float:
        """Of all but the first, for which files are read from the disk."""
        return max(self.seconds[1:])


def _children_s() -> float:
    """What those children that were waited for have taken of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def options() -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument(
        "--events", type=int, help="of the large job; default: 10 million, --quick: 1 million"
    )
    parser.add_argument("--jobs", type=int, help="default: 5,000, --quick: 500")
    parser.add_argument("--rounds", type=int, help="default: 20, --quick: 4")
    found = parser.parse_args()
    for name, whole, short in (("events", 10**7, 10**6), ("jobs", 5_000, 500), ("rounds", 20, 4)):
        if getattr(found, name) is None:
            setattr(found, name, short if found.quick else whole)
    return found


def fill(directory: Path, given: argparse.Namespace) -> list[Asked]:
    """Record everything, and answer what is asked of it."""
    database = Database(sqlite_url(directory / "trainyard.db"))
    try:
        others = add_others(database, given.jobs)
        races = add_races(database, others)
        home = directory / "jobs"
        large = add_large(database, LAYERS, given.events, home=home, baseline=others[-1]).job_id
        rival = add_large(database, LAYERS, LAYERS * PER_LAYER * WORKERS * RIVAL_STEPS).job_id
    finally:
        database.close()
    small, another = others[-20], others[-19]  # of which the first has succeeded, and a race has it
    return [
        Asked("python alone", ["-c", ""]),
        Asked.of("list", "list"),
        Asked.of("list --limit 200", "list", "--limit", "200"),
        Asked.of("list --sort -samples_per_s", "list", "--sort", "-samples_per_s"),
        Asked.of("show, small", "show", small),
        Asked.of("show, large", "show", large),
        Asked.of("compare, two small", "compare", small, another),
        Asked.of("compare, large ones", "compare", large, rival),
        Asked.of("races", "races"),
        Asked.of("races ID", "races", races[-1]),
        Asked.of("strategies", "strategies"),
    ]


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    given = options()
    title, question = "Commands in the terminal", "How long does a command take, from its start to its end?"
    with Report("terminal", title, question, given) as report:
        report.plan(
            [f"a database of {given.jobs:,} jobs, their races, and one job of {given.events:,} events",
             f"{given.rounds} rounds of every command"],
            minutes=1.5 if given.quick else 7,
        )  # fmt: skip
        report.method(
            "A real server on that database, which starts no jobs, on the same machine. Each command in a new process,"
            " one at a time, all of them in turn. The first run of each, for which files are read from the disk, stands"
            " by itself. Processor seconds are the command's own, without the server's. `python alone` starts the"
            " interpreter and ends."
        )
        with tempfile.TemporaryDirectory(prefix="trainyard-terminal-") as folder:
            asked = fill(Path(folder), given)
            with served(Path(folder)) as url:
                environment = inherited() | {"TRAINYARD_URL": url}
                for _ in range(1 + given.rounds):
                    for each in asked:
                        each.run(environment)
        report.raw(
            {"command": each.name, "seconds": each.seconds, "processor_s": each.processor_s} for each in asked
        )
        report.table("Commands", COLUMNS, [each.row() for each in asked])
        slow = [each.name for each in asked if each.largest_s > AIM_S]
        report.aims([(f"every command within {AIM_S:g} s, each time", ", ".join(slow) or "all", not slow)])
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
