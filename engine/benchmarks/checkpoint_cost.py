"""What does a checkpoint add to training? Steps around each one, beside those in which nothing is written.

    python -m engine.benchmarks.checkpoint_cost

Two workers train ResNet-50 (102 MB of parameters, as much momentum) with a checkpoint every few steps: workers copy
what they have between two steps, shards within a step, and threads write and verify meanwhile. The same job without
checkpoints takes its turn. Of every stretch of as many steps, the cost is what its steps take together beyond as many
medians of the stretch; what the job without checkpoints has of that is noise, and is taken off. About once a second
workers meet for worker 0's word about checkpoints: where steps are as long, that is in each of them, and so in the
median, which is compared with that of the job without checkpoints.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.benchmarks.harness.jobs import Measured, bench_job, measure
from engine.benchmarks.harness.machine import cpu_use
from engine.benchmarks.harness.pairs import rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.plan.checkpoint import CheckpointSpec
from engine.telemetry.definitions import WARM_UP_STEPS

WRITES, OFF = "checkpoints", "none"
STRATEGIES = ("p3", "ring-allreduce-overlap")
PER = 100
"""Steps from one checkpoint to the next in the aim."""
MOST = 0.03
COLUMNS = (
    "strategy", "median step, ms", "of one checkpoint, ms", "in steps", "of meetings, ms a step",
    f"share at one per {PER} steps", "CPU",
)  # fmt: skip


def beyond_ns(times_ns: Sequence[int], every: int) -> list[float]:
    """Of every whole stretch of `every` iterations, the first of which begins with the step before a checkpoint: what
    they take beyond as many medians. `times_ns`: of the iterations from step WARM_UP_STEPS on."""
    first = -(-(WARM_UP_STEPS + 1) // every) * every - 1 - WARM_UP_STEPS
    whole = np.array(times_ns[first : first + (len(times_ns) - first) // every * every], float)
    stretches = whole.reshape(-1, every)
    return list((stretches.sum(1) - every * np.median(stretches, axis=1)).tolist())


def row_of(strategy: str, found: dict[str, list[Measured]], every: int) -> tuple[list[Any], float]:
    """The table's row, and the share."""
    by_way = {
        way: [each for run in runs for each in beyond_ns(run.step_ns[0], every)]
        for way, runs in found.items()
    }
    cost = statistics.mean(by_way[WRITES]) - statistics.mean(by_way[OFF])
    step = statistics.median(run.iteration_ns for run in found[OFF])
    meetings = statistics.median(run.iteration_ns for run in found[WRITES]) - step
    share = (cost / PER + meetings) / step
    cpu = cpu_use(run.cpu_share for run in found[WRITES])
    return [strategy, step / 1e6, cost / 1e6, cost / step, meetings / 1e6, f"{share:.2%}", cpu], share


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=4, help="samples of each worker")
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    parser.add_argument("--steps", type=int, default=85)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.model, options.rounds, options.steps = "cnn", 1, 45
    title = "What a checkpoint costs"
    with Report(
        "checkpoint-cost", title, "How much longer does training take with checkpoints?", options
    ) as report:
        report.plan([f"{options.rounds} rounds of {', '.join(STRATEGIES)}, with and without"], minutes=25)
        report.method(__doc__.partition("\n\n")[2].partition("\n\n")[2] if __doc__ else "")
        rows, aims = [], []
        for strategy in STRATEGIES:
            spec = bench_job(options.model, strategy, workers=2, batch=options.batch, steps=options.steps)
            writing = replace(spec, checkpoint=CheckpointSpec(every_steps=options.every))
            found: dict[str, list[Measured]] = {OFF: [], WRITES: []}
            for number, way in rounds([OFF, WRITES], options.rounds):
                one = measure(writing if way == WRITES else spec)
                found[way].append(one)
                report.raw([{"strategy": strategy, "way": way, "round": number, **one.row()}])
            row, share = row_of(strategy, found, options.every)
            rows.append(row)
            report.table("Cost of a checkpoint", COLUMNS, rows)
            aims.append(
                (f"{strategy}: at most {MOST:.0%} at one per {PER} steps", f"{share:.2%}", share <= MOST)
            )
        report.aims(aims)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
