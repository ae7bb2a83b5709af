"""How fast a job is, by the definitions: medians over its newest steps (or whole periods, where workers average),
warm-up left out, and what the judgement of two jobs needs to know of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backend.figures.source import Source
from engine.telemetry.absence import Absence, share_present
from engine.telemetry.comparison import RunConditions
from engine.telemetry.definitions import (
    MIN_TIMES,
    WARM_UP_STEPS,
    input_share,
    iteration_parts_ns,
    iteration_times_ns,
    job_iteration_ns,
    job_throughput,
    median_error,
    median_interval,
)
from engine.telemetry.estimates import Estimate, Interval

WINDOW_STEPS = 1_000
"""Medians are over at most so many of the latest steps, in figures, lists and summaries alike: a job has one
speed. Of workers that average over more, see `window_steps`."""
MOST_WINDOW_STEPS = 5_000
"""Of them, too: reading must stay bounded. As many of DiLoCo's periods of 500 steps fit in as an interval needs; a
longer period than the window itself may hide its one average."""


@dataclass(frozen=True, kw_only=True)
class InputWait:
    """How long a worker waits for its data in a step."""

    rank: int
    ns: float
    """Median."""
    share: float | None
    """Of its own median iteration; None until it has one."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A job's speed over a window of steps."""

    first: int
    """First step of the window."""
    last: int
    period: int = 1
    """Steps from one average of the workers to the next; 1 where they meet in every step."""
    iteration_ns: float | None
    """The slowest worker's median; None until every worker has one."""
    interval_ns: Interval | None
    """95 % confidence interval of that median; None with fewer than MIN_TIMES iterations."""
    error: float | None
    """Standard error of that median's logarithm; None likewise."""
    throughput: Estimate | None
    """In samples per second; None until every worker has one."""
    exposed_ns: float | None
    """Exposed communication of a step: the median of the worker that has most."""
    compute_ns: float | None
    """Computation of a step: the median of the worker that has most."""
    exposed_rank: int | None = None
    """Of that worker; so is the next. Where one is slower, it is another one that waits."""
    compute_rank: int | None = None
    inputs: tuple[InputWait, ...] = ()
    """Of every worker that is there, by rank."""

    @property
    def longest_input(self) -> InputWait | None:
        """Of the worker that waits longest, by its share where that is known."""
        return max(self.inputs, key=lambda wait: (wait.share or 0.0, wait.ns), default=None)

    @property
    def samples_per_s(self) -> float | None:
        return None if self.throughput is None else self.throughput.value

    @property
    def missing_steps(self) -> int:
        """So many more steps, and the throughput has an interval; 0 where it has one."""
        if self.throughput is not None and self.throughput.interval is not None:
            return 0
        return max(1, WARM_UP_STEPS + MIN_TIMES * self.period - self.last)


def measure(source: Source, last: int | None = None) -> Speed:
    """The speed of the attempt that `source` reads, over the window that ends with step `last` (None: its newest)."""
    if last is None:
        last = source.last_step()
    first = max(WARM_UP_STEPS, last - window_steps(source.period))
    rows = source.step_rows(first, last)
    return speed_of(rows, source.job.workers, source.period, first, last, source.absences())


def window_steps(period: int) -> int:
    """Steps of the window over which a job whose workers average every `period` steps has its speed."""
    return min(max(WINDOW_STEPS, MIN_TIMES * period), MOST_WINDOW_STEPS)


def speed_of(
    rows: np.ndarray,
    workers: int,
    period: int,
    first: int,
    last: int,
    away: Mapping[int, Sequence[Absence]],
) -> Speed:
    """The speed of STEP_ROW `rows` of the steps from `first` to `last`, by periods of so many steps. `away`: when
    workers were, by rank: who was away all the time is no part of it."""
    ends = (int(rows["start"].min()), int(rows["end"].max())) if len(rows) else (0, 0)
    present = [share_present(away.get(rank, ()), *ends) for rank in range(workers)]
    medians: list[float | None] = []
    paces: list[tuple[np.ndarray, np.ndarray]] = []
    interval, error = None, None
    exposed, compute = dict[int, float](), dict[int, float]()
    inputs = []
    for party, share in enumerate(present):
        if share <= 0:
            paces.append((np.empty(0), np.empty(0)))
            continue
        own = rows[(rows["party"] == party) & (rows["step"] >= WARM_UP_STEPS)]
        times = iteration_times_ns(own["step"], own["start"], own["end"], period=period)
        median = float(np.median(times)) if len(times) else None
        medians.append(median)
        paces.append((own["samples"], times))
        if median is not None and median == max(m for m in medians if m is not None):
            interval, error = median_interval(times), median_error(times)
        if len(own):
            exposed[party] = median_part_ns(own, "exposed", period)
            compute[party] = median_part_ns(own, "compute", period)
            waited = median_part_ns(own, "input", period)
            of_step = None if median is None else input_share(waited, median)
            inputs.append(InputWait(rank=party, ns=waited, share=of_step))
    return Speed(
        first=first,
        last=last,
        period=period,
        iteration_ns=job_iteration_ns(medians),
        interval_ns=interval,
        error=error,
        throughput=job_throughput(paces, present),
        exposed_ns=max(exposed.values(), default=None),
        compute_ns=max(compute.values(), default=None),
        exposed_rank=max(exposed, key=exposed.__getitem__, default=None),
        compute_rank=max(compute, key=compute.__getitem__, default=None),
        inputs=tuple(inputs),
    )


def median_part_ns(own: np.ndarray, part: str, period: int) -> float:
    """Median ns that a column of one worker's STEP_ROW takes of its iterations; 0 where no period is whole."""
    times = iteration_parts_ns(own["step"], own["start"], own["end"], own[part], period=period)
    return float(np.median(times)) if len(times) else 0.0


def conditions(source: Source, speed: Speed, name: str | None = None) -> RunConditions:
    """What the judgement must know of a run to compare it. `name`: what to call it; None: the job's name."""
    job = source.job
    return RunConditions(
        samples_per_s=speed.throughput,
        name=name or job.name,
        model=job.model,
        fingerprint=job.fingerprint,
        data=job.data,
        precision=job.precision,
        global_batch=job.global_batch,
        workers=job.workers,
        threads=job.threads,
        device=job.device,
        device_models=job.device_models,
        slowed=job.slowed,
        alone=source.ran_alone(),
        rate=job.rate,
        limited_by_software=job.rate is not None and job.hosts is None,
        settings=job.settings,
        ended=job.ended,
        missing_steps=speed.missing_steps,
    )
