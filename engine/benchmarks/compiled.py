"""What does `torch.compile` gain under our runtime, and do our hooks add anything to what is compiled?

    python -m engine.benchmarks.compiled

One worker under `single` against a plain PyTorch loop, both with the model as it is and compiled as a whole: same data,
optimizer, loader and threads, telemetry included on our side. An iteration lasts from the start of one forward pass to
the start of the next.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from engine.benchmarks.harness.jobs import bench_job
from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.pairs import ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.turns import METHOD, job_program, take_turns
from engine.benchmarks.runtime_overhead import plain_program
from engine.models import registry
from engine.models.fit import fitted
from engine.plan.job import JobSpec, SourceSpec

WARM_UP = 3
"""Steps; the compiler runs in the first ones."""
PLAIN, PLAIN_COMPILED, OURS, OURS_COMPILED = RUNS = (
    "plain loop",
    "plain loop, compiled",
    "our runtime",
    "our runtime, compiled",
)
RATIOS = {
    "compiling gains, plain": (PLAIN, PLAIN_COMPILED),
    "compiling gains, ours": (OURS, OURS_COMPILED),
    "ours over plain": (OURS, PLAIN),
    "ours over plain, compiled": (OURS_COMPILED, PLAIN_COMPILED),
}
COLUMNS = ("model", "batch", *(f"{name}, ms" for name in RUNS), *RATIOS)


def build(model: str, backend: str) -> nn.Module:
    """The model of the catalogue, compiled: what the jobs name as their entry point."""
    compiled: nn.Module = torch.compile(registry.build(model), backend=backend)  # type: ignore[assignment]
    return compiled


def compiled(job: JobSpec, backend: str) -> JobSpec:
    """The same job with its model compiled."""
    name = job.model.name
    options: dict[str, Any] = {"model": name, "backend": backend}
    source = SourceSpec(entrypoint=f"{__spec__.name}:build", directory=str(ROOT), options=options)
    return replace(job, model=source, data=fitted(job.data, job.model))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet32", "vgg-small"])
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[32, 32], help="samples, one for each model"
    )
    parser.add_argument("--steps", type=int, default=250, help="of each run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    if options.quick:
        options.models, options.batches, options.steps = ["cnn"], [16], 200
    with Report(
        "compiled",
        "Compiled models under our runtime and in plain PyTorch",
        "What does torch.compile gain, and what do our hooks add to it?",
        options,
    ) as report:
        report.plan(
            [
                f"{model}, batch {batch}: {len(RUNS)} runs of {options.steps} steps, in turns"
                for model, batch in zip(options.models, options.batches, strict=True)
            ],
            minutes=len(options.models) * (6.0 if not options.quick else 2.0),
        )
        report.method(
            f"{options.threads} compute thread(s), backend {options.backend}, synthetic data from the same loader. "
            f"{METHOD} The plain loops have our allocator setting, too. The first {WARM_UP} steps, in which the "
            "compiler runs, are left out. A gain of more than 1: compiling is faster. "
            "More than 1 in ours over plain: our runtime takes longer."
        )
        rows = []
        for model, batch in zip(options.models, options.batches, strict=True):
            job = bench_job(
                model, "single", workers=1, batch=batch, steps=options.steps, threads=options.threads
            )
            jobs = {name: compiled(job, options.backend) if "compiled" in name else job for name in RUNS}
            programs = {
                name: job_program(one) if name in (OURS, OURS_COMPILED) else plain_program(one, keeping=True)
                for name, one in jobs.items()
            }
            found = take_turns(programs, warm_up=WARM_UP)
            for name, times in found.items():
                report.raw(
                    {"model": model, "batch": batch, "round": number, "who": name, "iteration_ns": took}
                    for number, took in enumerate(times)
                )
            ratios = [ratio(found[over], found[under]) for over, under in RATIOS.values()]
            rows.append(
                [
                    model,
                    batch,
                    *(statistics.median(found[name]) / 1e6 for name in RUNS),
                    *(f"{each}{' *' if each.significant else ''}" for each in ratios),
                ]
            )
            report.table("An iteration", COLUMNS, rows)


if __name__ == "__main__":
    main()
