"""Is a step slower than it was at another commit? The same jobs with the engine of both, in turns.

    python -m engine.benchmarks.against_commit COMMIT

The other engine is in a work tree that is made beside this one and removed afterwards; the Python packages are those of
this one. When a step began is what the recorder of each says.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from engine.benchmarks.harness.jobs import named
from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.pairs import ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.resolved import resolved, tell
from engine.benchmarks.harness.trees import work_tree
from engine.benchmarks.harness.turns import METHOD, job_program_of, take_turns

WARM_UP = 3
SETS = 3
"""Of processes for each cell: memory lies differently in each process, and for as long as it runs a step may take two
in a hundred more or less for that, as a commit against itself shows."""
CELL_S = 100
"""What one takes, its start included, for the plan's minutes."""
HERE, THERE = "here", "there"
COLUMNS = ("model", "strategy", "here, ms", "there, ms", "rounds", "here over there", "by set of processes")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "commit", nargs="?", default="HEAD", help="the other one; HEAD, without changes here: chance"
    )
    parser.add_argument("--models", nargs="+", default=["resnet32", "mlp"])
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[16, 32], help="of a worker, one for each model"
    )
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[100, 1500], help="of each run, one for each model"
    )
    parser.add_argument(
        "--strategies",
        nargs="+",
        default=["p3", "ring-allreduce-overlap", "late-multiply"],
        help="as a strategy is, or with options that both commits get: p3:slice_size=50000",
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if not len(options.models) == len(options.batches) == len(options.steps):
        parser.error(
            f"{len(options.models)} --models, {len(options.batches)} --batches and {len(options.steps)} --steps: give"
            " as many of each, one for each model"
        )
    if options.quick:
        options.models, options.batches, options.steps, options.strategies = ["mlp"], [32], [400], ["p3"]
    with (
        Report(
            "against-commit",
            f"A step against commit {options.commit}",
            f"Is a step slower than at {options.commit}?",
            options,
        ) as report,
        work_tree(options.commit) as there,
    ):
        cells = [
            (model, label, _job(model, label, workers=options.workers, batch=batch, steps=steps))
            for model, batch, steps in zip(options.models, options.batches, options.steps, strict=True)
            for label in options.strategies
        ]
        report.plan(
            [f"{model} under {strategy}, {job['steps']} steps of both" for model, strategy, job in cells],
            minutes=len(cells) * CELL_S / 60,
        )
        report.method(
            f"{options.workers} workers on this machine without a limit of the network, synthetic data. {METHOD} The"
            f" first {WARM_UP} steps are left out. {SETS} sets of processes for each; a difference is marked (*) where"
            " all sets say it. More than 1: a step takes longer here."
        )
        tell(
            report,
            (
                (f"{strategy} on {model}", resolved(ROOT, job), resolved(there, job))
                for model, strategy, job in cells
            ),
        )
        rows = []
        for model, strategy, job in cells:
            programs = {who: job_program_of(tree, **job) for who, tree in ((HERE, ROOT), (THERE, there))}
            sets = [take_turns(programs, warm_up=WARM_UP) for _ in range(SETS)]
            report.raw(
                {
                    "model": model, "strategy": strategy, "set": one, "round": number, "who": who,
                    "iteration_ns": ns,
                }
                for one, found in enumerate(sets)
                for who, times in found.items()
                for number, ns in enumerate(times)
            )  # fmt: skip
            rows.append([model, strategy, *_judged(sets)])
            report.table("An iteration", COLUMNS, rows)


def _job(model: str, label: str, **options: Any) -> dict[str, Any]:
    strategy, given = named(label)
    return {"model": model, "strategy": strategy, "options": given, **options}


def _judged(sets: Sequence[Mapping[str, Sequence[float]]]) -> list[float | int | str]:
    """What stands in a row: medians in ms, rounds, the ratio over all of these, and the ratios of the sets."""
    here, there = ([ns for found in sets for ns in found[who]] for who in (HERE, THERE))
    slower = ratio(here, there)
    each = [ratio(found[HERE], found[THERE]).median for found in sets]
    agreed = slower.significant and (min(each) > 1 or max(each) < 1)
    return [
        statistics.median(here) / 1e6,
        statistics.median(there) / 1e6,
        slower.pairs,
        f"{slower}{' *' if agreed else ''}",
        ", ".join(f"{median:.3f}" for median in each),
    ]


if __name__ == "__main__":
    main()
