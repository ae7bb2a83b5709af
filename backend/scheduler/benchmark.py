"""What do the scheduler's rules give, against first in, first out? One simulated day of 10,000 jobs on 128 devices
under each set of rules, side by side: the scheduler's own decisions on a clock that jumps.

    python -m backend.scheduler.benchmark             # 10,000 jobs
    python -m backend.scheduler.benchmark --quick     # 1,000 jobs
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace

from backend.scheduler.day import jobs as day_jobs
from backend.scheduler.day.measures import Measures, measure
from backend.scheduler.day.play import ALL, FIFO, play
from engine.benchmarks.harness.report import Report, arguments

COLUMNS = (
    "rules", "utilization", "wait s, mean", "median", "p95", "urgent, mean", "bounded slowdown", "fairness",
    "made room", "ended at h", "seconds",
)  # fmt: skip


def main() -> int:
    """Exit status 1 where an aim of a full run was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    day = day_jobs.Day(seed=options.seed)
    if options.quick:
        day = replace(day, jobs=1_000)
    title = "A simulated day under the scheduler's rules"
    question = "What do backfill, fair share, priorities and preemption give, against first in, first out?"
    with Report("scheduler-day", title, question, options) as report:
        _run(day, report)
    return report.exit_code()


def _run(day: day_jobs.Day, report: Report) -> None:
    report.plan([rules.name for rules in ALL], minutes=1)
    report.method(
        f"{day.jobs} jobs in 24 hours on {day.devices} devices, seed {day.seed}, which ask for {day.load:.0%} of what"
        f" the devices can give. Arrivals: Poisson, by day three times as often as by night."
        f" Sizes: powers of two up to {max(day_jobs.SIZES)}."
        f" Durations: log-normal (sigma {day_jobs.SIGMA}) over {day_jobs.SPECIFICATIONS} specifications of each"
        f" project. {day_jobs.DECLARED:.0%} of the jobs declare theirs, up to {day_jobs.MOST_PADDED:g} times too much,"
        f" {day_jobs.SHORT:.0%} of these too little; of the others they are learned. {day_jobs.URGENT:.0%} are urgent,"
        f" {day_jobs.SAVING:.0%} can make room. Projects submit"
        f" {', '.join(f'{part:.0%}' for part in day_jobs.PROJECTS.values())} of the jobs; their weights are equal."
        " Fairness: Jain's index over the device time of the projects that had jobs waiting for half of an hour or"
        " more, mean over these hours. Seconds: of one process, all decisions of the day."
    )
    jobs = day_jobs.make(day)
    found: dict[str, Measures] = {}
    rows: list[list[object]] = []
    for rules in ALL:
        begun = time.perf_counter()
        found[rules.name] = one = measure(play(jobs, day.devices, rules), day.devices)
        took = time.perf_counter() - begun
        report.raw([{"rules": rules.name, "seconds": took} | asdict(one)])
        waits = (one.wait_mean_s, one.wait_median_s, one.wait_p95_s, one.urgent_mean_s)
        rows.append(
            [
                rules.name, one.utilization, *waits, one.slowdown, one.fairness, one.preemptions, one.last_end_h,
                took,
            ]
        )  # fmt: skip
        report.table("The same day", COLUMNS, rows)
    fifo, everything = found[FIFO.name], found[ALL[-1].name]
    report.aims(
        [
            ("mean wait with all rules over FIFO's, at most 1", everything.wait_mean_s / fifo.wait_mean_s,
             everything.wait_mean_s <= fifo.wait_mean_s),
            ("fairness with all rules less FIFO's, at least 0", everything.fairness - fifo.fairness,
             everything.fairness >= fifo.fairness),
            ("utilization with all rules over FIFO's, at least 1", everything.utilization / fifo.utilization,
             everything.utilization >= fifo.utilization),
        ]
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
