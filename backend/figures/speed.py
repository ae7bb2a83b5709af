"""How fast a job is, by the definitions: medians over its newest steps (or whole periods, where workers average),
warm-up left out, and whether two jobs may be compared at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.figures.source import Source
from engine.telemetry.definitions import (
    WARM_UP_STEPS,
    RunConditions,
    Scaling,
    SpeedUp,
    iteration_times_ns,
    job_iteration_ns,
    median_iteration_ns,
    speed_up,
    step_means,
    worker_throughput,
)

WINDOW_STEPS = 1_000
"""Medians are over at most so many of the latest steps, in figures, lists and summaries alike: a job has one
speed. Of workers that average over more, see `window_steps`."""
MOST_WINDOW_STEPS = 5_000
"""Of them, too: reading must stay bounded. As many of DiLoCo's periods of 500 steps fit in as an interval needs; a
longer period than the window itself may hide its one average."""
MIN_TIMES = 8
"""Fewer iteration times say nothing about their median."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A job's speed over a window of steps."""

    first: int
    """First step of the window."""
    last: int
    iteration_ns: float | None
    """The slowest worker's median; None until every worker has one."""
    interval_ns: tuple[float, float] | None
    """95 % confidence interval of that median; None with fewer than MIN_TIMES iterations."""
    samples_per_s: float | None
    exposed_ns: float | None
    """Exposed communication of a step: the median of the worker that has most."""
    compute_ns: float | None
    """Computation of a step: the median of the worker that has most."""


def measure(source: Source) -> Speed:
    """The speed of the attempt that `source` reads."""
    last = source.last_step()
    first = max(WARM_UP_STEPS, last - window_steps(source.period))
    return speed_of(source.step_rows(first, last), source.job.workers, source.period, first, last)


def window_steps(period: int) -> int:
    """Steps of the window over which a job whose workers average every `period` steps has its speed."""
    return min(max(WINDOW_STEPS, MIN_TIMES * period), MOST_WINDOW_STEPS)


def speed_of(rows: np.ndarray, workers: int, period: int, first: int, last: int) -> Speed:
    """The speed of STEP_ROW `rows` of the steps from `first` to `last`, by periods of so many steps."""
    medians: list[float | None] = []
    rates: list[float | None] = []
    interval, exposed, compute = None, [], []
    for party in range(workers):
        own = rows[rows["party"] == party]
        times = own["step"], own["start"], own["end"]
        median = median_iteration_ns(*times, period=period)
        medians.append(median)
        rates.append(worker_throughput(own["samples"], median))
        if median is not None and median == max(m for m in medians if m is not None):
            interval = median_interval(iteration_times_ns(*times, period=period))
        if len(own):
            exposed.append(float(np.median(step_means(own["step"], own["exposed"], period=period))))
            compute.append(float(np.median(step_means(own["step"], own["compute"], period=period))))
    known = [rate for rate in rates if rate is not None]
    return Speed(
        first=first,
        last=last,
        iteration_ns=job_iteration_ns(medians),
        interval_ns=interval,
        samples_per_s=sum(known) if known and len(known) == len(rates) else None,
        exposed_ns=max(exposed, default=None),
        compute_ns=max(compute, default=None),
    )


def median_interval(values: np.ndarray) -> tuple[float, float] | None:
    """95 % confidence interval of the median of (n) values by order statistics (no distribution is
    assumed)."""
    if len(values) < MIN_TIMES:
        return None
    ordered, reach = np.sort(values), 0.98 * np.sqrt(len(values))
    low = max(int(np.floor(len(values) / 2 - reach)) - 1, 0)
    high = min(int(np.ceil(len(values) / 2 + reach)), len(values) - 1)
    return float(ordered[low]), float(ordered[high])


def conditions(source: Source, samples_per_s: float | None) -> RunConditions:
    """What the definitions must know of a run to compare it."""
    job = source.job
    return RunConditions(
        samples_per_s=samples_per_s,
        workload=f"{job.model} on {job.data}, {job.precision}",
        global_batch=job.global_batch,
        workers=job.workers,
        threads=job.threads,
        device=job.device,
        alone=source.ran_alone(),
        rate=job.rate,
    )


def compare(job: Source, baseline: Source, ours: float | None, theirs: float | None) -> SpeedUp:
    """The speed-up of a job that makes `ours` samples per second over another that makes `theirs`.

    Strong where their global batches are equal, else weak where their batches per worker are; refused, with
    the reasons, where neither is.
    """
    return speed_up(conditions(job, ours), conditions(baseline, theirs), scaling(job, baseline))


def scaling(job: Source, baseline: Source) -> Scaling:
    a, b = job.job, baseline.job
    weak = a.global_batch * b.workers == b.global_batch * a.workers
    return "weak" if weak and a.global_batch != b.global_batch else "strong"


def why_not_a_race(sources: list[Source]) -> list[str]:
    """Reasons why steps of these jobs may not be compared with one another; none where they may."""
    first, reasons = sources[0].job, []
    for what, field in (
        ("model", "model"),
        ("data", "data"),
        ("workers", "workers"),
        ("global batch", "global_batch"),
        ("precision", "precision"),
        ("device", "device"),
        ("threads per worker", "threads"),
        ("network rate", "rate"),
    ):
        values = [getattr(source.job, field) for source in sources]
        if len(set(values)) > 1:
            each = ", ".join(
                f"{v or 'unlimited'} in {s.job.name}" for v, s in zip(values, sources, strict=True)
            )
            reasons.append(f"{what}: {each}")
    reasons += [
        f"{source.job.name} ran at the same time as another job"
        for source in sources
        if not source.ran_alone()
    ]
    return reasons if len(sources) > 1 else [f"{first.name} is alone: a race needs two jobs"]
