"""PAI's table 2 (papers 002): AlexNet on 2, 4 and 8 devices, with one parameter server and with many.

Run: `python -m engine.experiments.pai_table_2` (about 2 minutes; `--quick` about 1).

T_p keeps all parameters on one server, T_c cuts them into as many shards as there are workers, each on a server of its
own. The paper's system is TensorFlow: workers pull when a step begins (`parameter-server-deferred`). A global batch of
512 is shared out (strong scaling); the P100 is replayed at the share of its peak that makes one device take the
paper's 0.807 s. The paper names RDMA but no rate; 50 Gbit/s is where one server's port, there and back, needs the
0.08 s that its T_p grows by with each worker. Sizes and rates are divided by one factor, and time runs slower, as in
`p3_cluster`. ResNet-32 of the same table has 1.9 MB of parameters: nothing to see.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from engine.benchmarks.harness.jobs import Measured, bench_job
from engine.benchmarks.harness.machine import BUSY, cpu_use
from engine.benchmarks.harness.report import Report, arguments
from engine.experiments.p3_cluster import RESULTS, START_S, WARM_UP, race, spread
from engine.models.describe import describe_request
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain
from engine.profile import profile_of

WORKERS = (2, 4, 8)
BATCH = 512
"""Samples of one step over all workers."""
GBIT = 50.0
EFFICIENCY = 0.282
"""Of the P100's peak, so that one device takes `ALONE_S`."""
ALONE_S = 0.807
SCALE = 20.0
SLOW = 6.0
STEPS = 5
PAPER = {2: (0.52, 0.451), 4: (0.518, 0.279), 8: (0.757, 0.198)}
"""Workers -> (T_p, T_c) in seconds."""
COLUMNS = ("workers", "T_p, s", "paper", "T_c, s", "paper", "T_p / T_c", "paper", "most CPU")


def main() -> None:
    """Measure and write the result."""
    options = parser().parse_args()
    counts = WORKERS[:2] if options.quick else WORKERS
    with Report(
        "pai_table_2",
        "PAI, table 2: one parameter server and many",
        "What does it gain to spread AlexNet's parameters over as many servers as there are workers?",
        options,
    ) as report:
        seconds = [expected_s(n, servers) for n in counts for servers in (1, n)]
        report.plan(
            [f"{n} workers: {options.rounds} rounds of 1 and {n} servers" for n in counts],
            options.rounds * sum(seconds) / 60,
        )
        report.method(
            f"AlexNet, {description().parameter_count / 1e6:.1f} M parameters, global batch {BATCH}, "
            f"links of {GBIT:g} Gbit/s; "
            f"{job(2, 1).rehearsed}, time {SLOW:g} times slower (batch times {SLOW:g}, rate by {SLOW:g}); "
            f"times below are the true ones. The first {WARM_UP} steps of every run are left out. "
            f"{BUSY}"
        )
        measured = {}
        for n in counts:
            print(f"{n} workers", flush=True)
            jobs = {"one server": job(n, 1), "partitioned": job(n, n)}
            measured[n] = race(report, jobs, options.rounds, workers=n)
            report.table("Time of one step", COLUMNS, rows(measured))
        report.note(
            "The paper does not say which servers and workers share machines; here each is a host of its own. Its rate"
            " is assumed (see above), so it is the shape that compares: one server's port carries every worker's"
            " gradients and answers, and from some number of workers on a step takes longer again; shards on as many"
            " ports carry one model each, and it keeps falling. Ours is shorter before that point:"
            " gradients leave during backward."
        )


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = arguments(__doc__)
    made.set_defaults(out=RESULTS)
    made.add_argument("--rounds", type=int, default=1, help="runs of each number of servers")
    return made


def job(workers: int, servers: int) -> JobSpec:
    """Every worker and every server on a host of its own."""
    return bench_job(
        "alexnet",
        "parameter-server-deferred",
        workers=workers,
        batch=round(BATCH * SLOW / workers),
        steps=STEPS,
        options={"servers": servers, "where": "dedicated", "split_over": 1},
        network={"hosts": workers + servers, "rate": f"{GBIT / SLOW:g}Gbit"},
        rehearsal={"device": "p100", "efficiency": EFFICIENCY, "scale": SCALE},
    )


@cache
def description() -> ModelDescription:
    """AlexNet at its true size."""
    spec = job(2, 1)
    return describe_request({"model": to_plain(spec.model), "data": to_plain(spec.data)})


def compute_s(workers: int) -> float:
    """Seconds of one step's compute, the batch shared out."""
    profile = profile_of(job(workers, 1), description())
    return BATCH / workers * (profile.forward_s + profile.backward_s)


def port_s(workers: int, servers: int) -> float:
    """Seconds that a step's payload takes through the busiest port in one direction: a server's, or a worker's."""
    models = max(workers / servers, 1.0)
    return models * description().parameter_bytes * 8 / (GBIT * 1e9)


def expected_s(workers: int, servers: int) -> float:
    """About how long one run takes here: gradients and answers one after the other, and nothing hidden."""
    return START_S + STEPS * SLOW * (compute_s(workers) + 2 * port_s(workers, servers))


def rows(measured: Mapping[int, Mapping[str, Sequence[Measured]]]) -> list[list[Any]]:
    """One line per number of workers, beside the paper's."""
    found: list[list[Any]] = []
    for workers, runs in measured.items():
        one, many = (
            [each.iteration_ns / 1e9 / SLOW for each in runs[name]] for name in ("one server", "partitioned")
        )
        paper_one, paper_many = PAPER[workers]
        found.append(
            [
                workers,
                spread(one, digits=3),
                paper_one,
                spread(many, digits=3),
                paper_many,
                f"{statistics.median(one) / statistics.median(many):.2f}",
                f"{paper_one / paper_many:.2f}",
                cpu_use(each.cpu_share for some in runs.values() for each in some),
            ]
        )
    return found


if __name__ == "__main__":
    main()
