"""Is a rehearsed step slower, or dearer, than it was at another commit? Whole rehearsals with the engine of both.

    python -m engine.benchmarks.rehearsed_against_commit COMMIT

`against_commit` trains, in slices; a rehearsal goes by the clock and cannot be stopped in between, so here whole runs
alternate. The other engine is in a work tree that is made beside this one and removed afterwards; the Python packages
are those of this one. What is read of a run is what the recorder of its commit says: the slowest worker's median
iteration, and the processor time of all workers and servers per step.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.hosts import require_lab
from engine.benchmarks.harness.jobs import named, rehearsal_arguments, rehearsal_of
from engine.benchmarks.harness.machine import BUSY, ROOT, cpu_use
from engine.benchmarks.harness.pairs import FEWEST_ROUNDS, METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.resolved import resolved, tell
from engine.benchmarks.harness.trees import run_in, work_tree

HERE, THERE = "here", "there"
WARM_UP = 2
SLOWER, DEARER = 1.02, 1.03
"""The most that a step may take of the other commit's time, and of its processor time."""
RUN_S = 30
"""About what a run of the default takes, its start included, for the plan's minutes."""
COLUMNS = (
    "strategy",
    "here, s",
    "there, s",
    "here over there",
    "CPU here, s",
    "CPU there, s",
    "CPU here over there",
    "all cores",
)
_RUN = """
import json, sys
from pathlib import Path
import engine
from engine.benchmarks.harness.jobs import bench_job, measure
given = json.loads(sys.argv[1])
assert Path(engine.__file__).is_relative_to(Path.cwd()), f"{engine.__file__} is not of {Path.cwd()}"
print(json.dumps(measure(bench_job(**given["job"]), warm_up=given["warm_up"]).row()))
"""
"""Imports only what both commits have."""


def run(tree: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """`Measured.row` of one rehearsal with the engine in `tree`. Raises RuntimeError where it fails."""
    given = {"job": dict(job), "warm_up": WARM_UP}
    found: dict[str, Any] = run_in(tree, _RUN, given, f"the run in {tree} failed")
    return found


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    parser = arguments(__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD", help="the other one; HEAD: chance")
    parser.add_argument("--model", default="vgg19")
    parser.add_argument(
        "--strategies",
        nargs="+",
        default=["parameter-server", "p3", "ring-allreduce-overlap"],
        help="as a strategy is, or with options that both commits get: p3:slice_size=50000",
    )
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=float, default=200, help="Mbit/s on this machine's links")
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS)
    parser.add_argument("--steps", type=int, default=8, help=f"of each run; the first {WARM_UP} are left out")
    rehearsal_arguments(parser)
    options = parser.parse_args()
    require_lab()
    if options.quick:
        options.strategies, options.rounds, options.steps = ["p3"], 1, 4
    question = f"Is a rehearsed step slower, or dearer, than at {options.commit}?"
    with (
        Report(
            "rehearsed-against-commit", f"A rehearsed step against commit {options.commit}", question, options
        ) as report,
        work_tree(options.commit) as there,
    ):
        runs = 2 * options.rounds * len(options.strategies)
        report.plan(
            [f"{options.model} under {name}" for name in options.strategies], minutes=runs * RUN_S / 60
        )
        report.method(
            f"Rehearsed: {options.hosts} hosts, {options.device} at {options.efficiency:g} of its peak, batch"
            f" {options.batch} per worker, links of {options.rate:g} Mbit/s; tensors and rates divided by"
            f" {options.scale:g}, times not. The first {WARM_UP} steps are left out. {METHOD} {BUSY}"
        )
        rows: list[list[Any]] = []
        aims: list[tuple[str, float, bool]] = []
        jobs = {label: _job(label, options) for label in options.strategies}
        tell(report, ((label, resolved(ROOT, job), resolved(there, job)) for label, job in jobs.items()))
        for strategy, job in jobs.items():
            found: dict[str, list[dict[str, Any]]] = {HERE: [], THERE: []}
            trees = {HERE: ROOT, THERE: there}
            for number, who in rounds([HERE, THERE], options.rounds):
                found[who].append(run(trees[who], job))
                report.raw([{"strategy": strategy, "who": who, "round": number, **found[who][-1]}])
            rows.append([strategy, *judged(found)])
            aims += aims_of(strategy, found)
            report.table("A step", COLUMNS, rows)
        report.aims(aims)
    return report.exit_code()


def _job(label: str, options: argparse.Namespace) -> dict[str, Any]:
    strategy, given = named(label)
    return {
        "model": options.model, "strategy": strategy, "options": given, "workers": options.hosts,
        "batch": options.batch, "steps": options.steps, "rehearsal": rehearsal_of(options),
        "network": {"hosts": options.hosts, "rate": f"{options.rate * options.scale:g}Mbit"},
    }  # fmt: skip


def judged(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Any]:
    """What stands in a strategy's row."""
    row: list[Any] = []
    for column in ("iteration_s", "cpu_s"):
        here, there = ([one[column] for one in found[who]] for who in (HERE, THERE))
        against = ratio(here, there)
        row += [statistics.median(here), statistics.median(there)]
        row.append(f"{against}{' *' if against.significant else ''}")
    return [*row, cpu_use(one["cpu_share"] for runs in found.values() for one in runs)]


def aims_of(strategy: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, float, bool]]:
    """Whether a step is neither slower nor dearer than it may be."""
    aims = []
    for column, most, what in (
        ("iteration_s", SLOWER, "a step's time"),
        ("cpu_s", DEARER, "a step's processor time"),
    ):
        median = ratio(*([one[column] for one in found[who]] for who in (HERE, THERE))).median
        aims.append((f"{strategy}: {what} at most {most} times as much", median, median <= most))
    return aims


if __name__ == "__main__":
    sys.exit(main())
