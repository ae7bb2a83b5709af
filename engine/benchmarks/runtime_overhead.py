"""What does our runtime cost? One worker under `single` against a plain PyTorch loop.

    python -m engine.benchmarks.runtime_overhead

Both train the same model on the same data with the same optimizer, loader and threads, telemetry included on our side.
An iteration lasts from the start of one forward pass to the start of the next.
"""

from __future__ import annotations

import statistics
import time
from multiprocessing.connection import Connection

import numpy as np
import torch

from engine.benchmarks.harness.hosts import Hosts, Place, tasks
from engine.benchmarks.harness.jobs import bench_job, measure
from engine.benchmarks.harness.pairs import METHOD, ratio, rounds
from engine.benchmarks.harness.report import Report, arguments
from engine.inputs.build import find_task, load_dataset
from engine.inputs.fit import fitted
from engine.inputs.loader import Loader
from engine.models.build import build_model
from engine.plan.job import JobSpec
from engine.runtime.updates import build_optimizer
from engine.runtime.worker import seed_everything

WARM_UP = 3
OURS, PLAIN = "our runtime", "plain loop"
COLUMNS = ("model", "batch", "ours, ms", "plain, ms", "ours over plain")


def _plain(place: Place, pipe: Connection, job: JobSpec) -> None:
    """The loop that anybody would write; answers when each step began, in ns."""
    for _ in tasks(pipe):
        torch.set_num_threads(job.cluster.threads)
        seed_everything(job.training.seed, False)
        data, task = load_dataset(fitted(job.data, job.model)), find_task(job.model, job.data)
        model = build_model(job.model)
        optimizer = build_optimizer(job.optimizer, model.named_parameters())
        loader = Loader(
            data.train,
            training=job.training,
            evaluation=job.evaluation,
            rank=0,
            workers=1,
            device=torch.device("cpu"),
            prefetch=1,
            dtype=None,
            filler=False,
        )
        starts = []
        for batch in loader:
            starts.append(time.monotonic_ns())
            (micro,) = batch.micro_batches
            loss = task(model, micro.inputs, micro.targets).total / batch.global_weight
            float(loss.detach())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        pipe.send(starts)


def plain_iteration_ns(job: JobSpec) -> float:
    """The median iteration of the plain loop, in a fresh process."""
    with Hosts(_plain, 1, lab=False, argument=job) as hosts:
        (starts,) = hosts.ask(["train"])
    return float(np.median(np.diff(starts[WARM_UP:])))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet32", "vgg19"])
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 1], help="samples, one for each model")
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[40, 9], help="of each run, one for each model"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.models, options.batches, options.steps, options.rounds = ["resnet32"], [16], [12], 1
    with Report(
        "runtime-overhead",
        "Our runtime with one worker against plain PyTorch",
        "How much longer is an iteration under our runtime?",
        options,
    ) as report:
        report.plan(
            [
                f"{model}, batch {batch}: {options.rounds} pairs of {steps} steps"
                for model, batch, steps in zip(options.models, options.batches, options.steps, strict=True)
            ],
            minutes=options.rounds
            * 2
            * sum(
                6 + (2.5 if m == "vgg19" else 0.3) * s
                for m, s in zip(options.models, options.steps, strict=True)
            )
            / 60,
        )
        report.method(
            f"{options.threads} compute thread(s), synthetic data from the same loader. {METHOD} The first {WARM_UP} "
            "steps are left out. More than 1: our runtime takes longer."
        )
        rows = []
        for model, batch, steps in zip(options.models, options.batches, options.steps, strict=True):
            job = bench_job(model, "single", workers=1, batch=batch, steps=steps, threads=options.threads)
            found: dict[str, list[float]] = {OURS: [], PLAIN: []}
            for number, who in rounds(list(found), options.rounds):
                took = measure(job, warm_up=WARM_UP).iteration_ns if who == OURS else plain_iteration_ns(job)
                found[who].append(took)
                report.raw(
                    [{"model": model, "batch": batch, "round": number, "who": who, "iteration_ns": took}]
                )
                print(f"  {model}, round {number + 1} {who}: {took / 1e6:.2f} ms", flush=True)
            longer = ratio(found[OURS], found[PLAIN])
            times = [statistics.median(found[who]) / 1e6 for who in found]
            rows.append([model, batch, *times, f"{longer}{' *' if longer.significant else ''}"])
            report.table("An iteration", COLUMNS, rows)


if __name__ == "__main__":
    main()
