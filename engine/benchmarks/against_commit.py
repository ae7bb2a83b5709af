"""Is a step slower than it was at another commit? The same jobs with the engine of both, in turns.

    python -m engine.benchmarks.against_commit COMMIT

The other engine is in a work tree that is made beside this one and removed afterwards; the Python packages are those of
this one. When a step began is what the recorder of each says.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.pairs import ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.turns import METHOD, job_program_of, take_turns

WARM_UP = 3
CELL_S = 150
"""What one takes, its start included, for the plan's minutes."""
HERE, THERE = "here", "there"
COLUMNS = ("model", "strategy", "here, ms", "there, ms", "rounds", "here over there")


@contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """The files of a commit. Raises SystemExit where there is no git, or this checkout has no such commit."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        raise SystemExit(
            f"{ROOT} is no git checkout, and another commit's files come from one: clone the repository"
        )
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False).returncode:
        raise SystemExit(
            f"COMMIT = {commit!r}: no such commit in {ROOT}. `git log --oneline` lists those there are"
        )
    with tempfile.TemporaryDirectory(prefix="trainyard-commit-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


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
        "--steps", type=int, nargs="+", default=[300, 6000], help="of each run, one for each model"
    )
    parser.add_argument("--strategies", nargs="+", default=["p3", "ring-allreduce-overlap", "late-multiply"])
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
            (model, strategy, {"workers": options.workers, "batch": batch, "steps": steps})
            for model, batch, steps in zip(options.models, options.batches, options.steps, strict=True)
            for strategy in options.strategies
        ]
        report.plan(
            [f"{model} under {strategy}, {job['steps']} steps of both" for model, strategy, job in cells],
            minutes=len(cells) * CELL_S / 60,
        )
        report.method(
            f"{options.workers} workers on this machine without a limit of the network, synthetic data. {METHOD} The"
            f" first {WARM_UP} steps are left out. More than 1: a step takes longer here."
        )
        rows = []
        for model, strategy, job in cells:
            programs = {HERE: ROOT, THERE: there}
            found = take_turns(
                {
                    who: job_program_of(tree, model=model, strategy=strategy, **job)
                    for who, tree in programs.items()
                },
                warm_up=WARM_UP,
            )
            for who, times in found.items():
                report.raw(
                    {"model": model, "strategy": strategy, "round": number, "who": who, "iteration_ns": ns}
                    for number, ns in enumerate(times)
                )
            slower = ratio(found[HERE], found[THERE])
            medians = [statistics.median(found[who]) / 1e6 for who in found]
            longer = f"{slower}{' *' if slower.significant else ''}"
            rows.append([model, strategy, *medians, slower.pairs, longer])
            report.table("An iteration", COLUMNS, rows)


if __name__ == "__main__":
    main()
