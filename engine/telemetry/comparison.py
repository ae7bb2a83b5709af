"""Which runs may be compared, and what a reader must know of it: the one judgement for speed-ups and races.

Pure: what is known of each run in, the verdict out. The numbers themselves are in `definitions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.telemetry.definitions import Estimate, Interval, ratio

Scaling = Literal["strong", "weak"]


@dataclass(frozen=True, kw_only=True)
class RunConditions:
    """What must be known of a run to compare its speed with another's."""

    samples_per_s: Estimate | None
    """Throughput, warm-up left out; None where it is not known yet."""
    name: str = ""
    """What people call it."""
    model: str
    """With its options, e.g. `resnet-digits (width=16)`: equal texts are equal models."""
    data: str
    """The same of the data set."""
    precision: str
    global_batch: int
    workers: int
    threads: int
    """Per worker."""
    device: str
    """Kind of device, e.g. `cpu`."""
    device_models: tuple[str, ...] = ()
    """Every model of its devices once, e.g. `NVIDIA H200`. Empty: not known."""
    alone: bool
    """No other job ran on the machine meanwhile."""
    rate: str | None = None
    """Limit of its network, e.g. `100 Mbit/s`; None: unlimited."""
    limited_by_software: bool = False
    """Our transport keeps that limit: it holds for nothing else, such as what the kernel adds."""

    @property
    def work(self) -> str:
        return f"{self.model} on {self.data}, {self.precision}"

    @property
    def batch_per_worker(self) -> float:
        return self.global_batch / self.workers


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """One comparison. `value` is None where the runs cannot be compared, and `refused` says why."""

    value: float | None
    interval: Interval | None = None
    """95 % confidence interval of the value; None where too little was measured to tell."""
    scaling: Scaling
    refused: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    """What a reader must know to trust the value."""

    @property
    def caveat(self) -> str | None:
        """Why there is no value, else what to know of it, in one line; None: nothing."""
        return "; ".join(self.refused or self.caveats) or None


def scaling_of(job: RunConditions, baseline: RunConditions) -> Scaling:
    """Weak where only the batches per worker are equal, else strong."""
    weak = job.global_batch * baseline.workers == baseline.global_batch * job.workers
    return "weak" if weak and job.global_batch != baseline.global_batch else "strong"


def speed_up(job: RunConditions, baseline: RunConditions, scaling: Scaling) -> SpeedUp:
    """This job's throughput over its baseline's, in samples per second, at equal global batch (strong
    scaling) or equal batch per worker (weak scaling). Unequal work, devices, threads or batch are refused."""
    refused = [
        f"{what}: {ours} here, {theirs} in the baseline; they must be equal"
        for what, ours, theirs in (
            ("work", job.work, baseline.work),
            ("device", job.device, baseline.device),
            *_device_models(job, baseline),
            ("threads per worker", job.threads, baseline.threads),
        )
        if ours != theirs
    ]
    if scaling == "strong" and job.global_batch != baseline.global_batch:
        refused.append(
            f"global batch: {job.global_batch} here, {baseline.global_batch} in the baseline; strong scaling "
            "compares equal ones. For equal batches per worker ask for weak scaling"
        )
    if scaling == "weak" and job.global_batch * baseline.workers != baseline.global_batch * job.workers:
        refused.append(
            f"batch per worker: {job.batch_per_worker:g} here, {baseline.batch_per_worker:g} in the baseline; "
            "weak scaling compares equal ones. For equal global batches ask for strong scaling"
        )
    both = (("this job", job), ("the baseline", baseline))
    refused.extend(
        f"throughput: {who} has none after the warm-up yet" for who, run in both if not _is_moving(run)
    )
    if refused or job.samples_per_s is None or baseline.samples_per_s is None:
        return SpeedUp(value=None, scaling=scaling, refused=tuple(refused))
    found = ratio(job.samples_per_s, baseline.samples_per_s)
    return SpeedUp(
        value=found.value, interval=found.interval, scaling=scaling, caveats=tuple(_caveats(job, baseline))
    )


def why_not_a_race(runs: Sequence[RunConditions]) -> list[str]:
    """Reasons why steps of these runs may not be compared with one another; none where they may."""
    if len(runs) < 2:
        return [f"{run.name} is alone: a race needs two jobs" for run in runs]
    reasons = []
    for what, values in (
        ("model", [run.model for run in runs]),
        ("data", [run.data for run in runs]),
        ("workers", [run.workers for run in runs]),
        ("global batch", [run.global_batch for run in runs]),
        ("precision", [run.precision for run in runs]),
        ("device", [run.device for run in runs]),
        ("device model", [_named(run.device_models) for run in runs]),
        ("threads per worker", [run.threads for run in runs]),
        ("network rate", [run.rate or "unlimited" for run in runs]),
    ):
        if len({value for value in values if value != UNKNOWN}) > 1:
            each = ", ".join(f"{value} in {run.name}" for value, run in zip(values, runs, strict=True))
            reasons.append(f"{what}: {each}")
    return reasons + [f"{run.name} ran at the same time as another job" for run in runs if not run.alone]


UNKNOWN = "not known"


def _named(models: tuple[str, ...]) -> str:
    return " and ".join(models) or UNKNOWN


def _device_models(job: RunConditions, baseline: RunConditions) -> list[tuple[str, str, str]]:
    """To compare; only where both are known."""
    if not job.device_models or not baseline.device_models:
        return []
    return [("device model", _named(job.device_models), _named(baseline.device_models))]


def _is_moving(run: RunConditions) -> bool:
    return run.samples_per_s is not None and run.samples_per_s.value > 0


def _caveats(job: RunConditions, baseline: RunConditions) -> list[str]:
    both = (("this job", job), ("the baseline", baseline))
    caveats = [f"another job ran on the machine during {who}" for who, run in both if not run.alone]
    caveats += [
        f"device model: that of {who} is not known"
        for who, run in both
        if "cuda" in run.device and not run.device_models
    ]
    if min(job.workers, baseline.workers) < 2:
        return caveats  # one worker uses no network
    if job.rate != baseline.rate:
        here, there = job.rate or "unlimited", baseline.rate or "unlimited"
        caveats.append(f"network rate: {here} here, {there} in the baseline")
    limited = [who for who, run in both if run.limited_by_software]
    if limited:
        caveats.append(f"network rate: kept in software, not by a link, in {' and '.join(limited)}")
    return caveats
