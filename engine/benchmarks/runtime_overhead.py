"""What does our runtime cost? One worker under `single` against a plain PyTorch loop.

    python -m engine.benchmarks.runtime_overhead

Both train the same model on the same data with the same optimizer, loader and threads, telemetry included on our side,
and run in turns. An iteration lasts from the start of one forward pass to the start of the next. Our runtime sets the
C library's allocator (`engine/allocator.py`); the plain loop runs without and with that setting, so that what
it gains is told apart from what the rest costs.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import torch

from engine.allocator import keep_freed_memory
from engine.benchmarks.harness.jobs import bench_job
from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.pairs import ratio
from engine.benchmarks.harness.report import Report, arguments
from engine.benchmarks.harness.turns import METHOD, Program, job_program, take_turns
from engine.inputs.build import find_task, load_dataset
from engine.inputs.loader import Loader
from engine.models.build import build_model
from engine.models.fit import fitted
from engine.plan.inputs import Input
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.runtime.worker import seed_everything
from engine.state.updates import build_optimizer

WARM_UP = 3
OURS, PLAIN, PLAIN_KEEPING = "our runtime", "plain loop", "plain loop, our allocator setting"
COLUMNS = (
    "model",
    "batch",
    "ours, ms",
    "plain, ms",
    "plain with our allocator setting, ms",
    "rounds",
    "ours over plain",
    "ours over plain with our allocator setting",
)
_PLAIN = """
import json, sys
from engine.benchmarks.runtime_overhead import plain_loop
print(json.dumps(plain_loop(**json.loads(sys.argv[1]))))
"""


def plain_program(spec: JobSpec, *, keeping: bool = False) -> Program:
    """The plain loop that trains what a job of one worker trains; `keeping`: with our runtime's allocator setting."""
    return Program(
        code=_PLAIN, arguments=(json.dumps({"spec": to_plain(spec), "keeping": keeping}),), tree=ROOT
    )


def plain_loop(spec: dict[str, Any], keeping: bool) -> list[int]:
    """The loop that anybody would write. When each of its steps began, in ns of Unix time."""
    job = from_plain(JobSpec, spec)
    if keeping:
        keep_freed_memory()
    torch.set_num_threads(job.cluster.threads)
    seed_everything(job.training.seed, False)
    data, task = load_dataset(fitted(job.data, job.model)), find_task(job.model, job.data)
    built = build_model(job.model)
    optimizer = build_optimizer(job.optimizer, built.named_parameters())
    loader = Loader(
        data.train,
        training=job.training,
        evaluation=job.evaluation,
        rank=0,
        workers=1,
        device=torch.device("cpu"),
        input=Input(prefetch=1),
        dtype=None,
        filler=False,
    )
    starts = []
    for batch in loader:
        starts.append(time.time_ns())
        (micro,) = batch.micro_batches
        loss = task(built, micro.inputs, micro.targets).total / batch.global_weight
        float(loss.detach())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return starts


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet32", "vgg19"])
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 1], help="samples, one for each model")
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[300, 60], help="of each run, one for each model"
    )
    parser.add_argument(
        "--slices", type=float, nargs="+", default=[2, 8], help="seconds of a turn, one for each model"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.models, options.batches, options.steps, options.slices = ["resnet32"], [16], [30], [2]
    with Report(
        "runtime-overhead",
        "Our runtime with one worker against plain PyTorch",
        "How much longer is an iteration under our runtime?",
        options,
    ) as report:
        cells = list(zip(options.models, options.batches, options.steps, options.slices, strict=True))
        report.plan(
            [f"{model}, batch {batch}: {steps} steps of each" for model, batch, steps, _ in cells],
            minutes=sum(30 + 3 * (1.5 if model == "vgg19" else 0.3) * steps for model, _, steps, _ in cells)
            / 60,
        )
        report.method(
            f"{options.threads} compute thread(s), synthetic data from the same loader. {METHOD} The first {WARM_UP} "
            "steps are left out. More than 1: our runtime takes longer."
        )
        rows = []
        for model, batch, steps, slice_s in cells:
            job = bench_job(model, "single", workers=1, batch=batch, steps=steps, threads=options.threads)
            programs = {
                OURS: job_program(job),
                PLAIN: plain_program(job),
                PLAIN_KEEPING: plain_program(job, keeping=True),
            }
            found = take_turns(programs, warm_up=WARM_UP, slice_s=slice_s)
            for who, times in found.items():
                report.raw(
                    {"model": model, "batch": batch, "round": number, "who": who, "iteration_ns": took}
                    for number, took in enumerate(times)
                )
            longer = [ratio(found[OURS], found[who]) for who in (PLAIN, PLAIN_KEEPING)]
            medians = [statistics.median(found[who]) / 1e6 for who in programs]
            told = [f"{one}{' *' if one.significant else ''}" for one in longer]
            rows.append([model, batch, *medians, longer[0].pairs, *told])
            report.table("An iteration", COLUMNS, rows)


if __name__ == "__main__":
    main()
