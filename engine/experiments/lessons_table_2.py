"""Practical lessons, table 2 (papers 000): what AlexNet moves under data and under hybrid parallelism.

Run: `python -m engine.experiments.lessons_table_2` (about 3 minutes; `--quick` about 1).

The paper's data parallelism gathers gradients at one place and spreads the weights from it (`central-reduce`); its
hybrid parallelism leaves the fully-connected layers on one device (`hybrid`). Here both of these places are processes
of their own. The global batch is 256. Bytes are counted by the transports, payload only; compute is real with 2 and 4
workers, replayed with 8. The times of the paper's GPUs say nothing about this machine: bytes alone compare.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.benchmarks.harness.jobs import bench_job, measure
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.wire import counted_payload
from engine.experiments.p3_cluster import RESULTS
from engine.launch import Launch
from engine.plan.job import JobSpec

BATCH = 256
"""Samples of one step over all workers."""
STEPS = 2
DATA, HYBRID = "central-reduce", "hybrid"
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    DATA: {"where": "dedicated"},
    HYBRID: {"where": "dedicated", "reducer": "dedicated"},
}
PAPER = {DATA: {2: 930, 4: 1861, 8: 3722}, HYBRID: {2: 54, 4: 89, 8: 161}}
"""MiB of one step by workers."""
COMPUTED = (2, 4)
"""Numbers of workers whose compute is real."""
COLUMNS = ("strategy", "workers", "compute", "counted, MiB a step", "paper, MiB")


def main() -> None:
    """Count and write the result."""
    options = parser().parse_args()
    counts = (8,) if options.quick else (2, 4, 8)
    with Report(
        "lessons_table_2",
        "Practical lessons, table 2: AlexNet's bytes",
        "How many bytes does a step of AlexNet move under data and under hybrid parallelism?",
        options,
    ) as report:
        report.plan(
            [f"{n} workers, {STEPS} steps of {' and '.join(OPTIONS)}" for n in counts], 0.9 * len(counts)
        )
        report.method(
            f"AlexNet at its true size, global batch {BATCH}, {STEPS} steps; payload between processes on different "
            "hosts as the transports counted it, over the number of steps."
        )
        rows = []
        for name in OPTIONS:
            for workers in counts:
                counted = mebibytes(job(name, workers))
                compute = "real" if workers in COMPUTED else "replayed"
                report.raw([{"strategy": name, "workers": workers, "compute": compute, "mib": counted}])
                rows.append([name, workers, compute, f"{counted:.1f}", PAPER[name][workers]])
                report.table("Bytes of one step", COLUMNS, rows)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    return made


def job(strategy: str, workers: int) -> JobSpec:
    """Two steps, every process on a host of its own in name."""
    return bench_job(
        "alexnet",
        strategy,
        workers=workers,
        batch=BATCH // workers,
        steps=STEPS,
        options=OPTIONS[strategy],
        rehearsal=None if workers in COMPUTED else {"device": "p100"},
    )


def mebibytes(spec: JobSpec) -> float:
    """What one step moved."""
    with tempfile.TemporaryDirectory(prefix="trainyard-experiment-") as directory:
        measure(spec, warm_up=0, directory=Path(directory))
        return sum(counted_payload(Launch.read(Path(directory))).values()) / STEPS / 2**20


if __name__ == "__main__":
    main()
