"""What every figure means: the one place where metrics are defined, used by page, API and reports.

Pure functions on arrays. Times are integer nanoseconds on the attempt's clock, sizes bytes, rates bits per
second. Which runs may be compared at all is said in `comparison.py`. Source: DESIGN, "Definitions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from engine.telemetry.estimates import Estimate, Interval

WARM_UP_STEPS = 5
"""Left out of every median: allocators, lazy kernels and connections settle in the first steps."""

MIN_TIMES = 8
"""Fewer iteration times say nothing about their median."""


# --- time ---


def iteration_times_ns(
    step: np.ndarray, start: np.ndarray, end: np.ndarray, *, period: int = 1
) -> np.ndarray:
    """Iteration times of one worker: start of forward to start of the next forward, over whole periods.

    `step`, `start` and `end` (n; ns) of its steps, in any order. `period`: steps from one average of the workers'
    parameters to the next; 1 where they meet in every step. Every whole period gives one entry, in ns: its time per
    step. Any `period` consecutive iterations hold one average, wherever they begin, whereas a median over single steps
    would hold none. As long as there are fewer iterations, they are one period. A step that is missing makes no long
    iteration: its period is left out.
    """
    return _iterations(step, start, end, period)[0]


def iteration_parts_ns(
    step: np.ndarray, start: np.ndarray, end: np.ndarray, part: np.ndarray, *, period: int = 1
) -> np.ndarray:
    """What a part of each step, such as its exposed communication, takes of one worker's iterations, in ns per step.

    `part` (n; ns) lies within its step. The entries belong to those of `iteration_times_ns` of the same steps, one by
    one, and none is larger; so no median of them is larger than the median of the iteration times. Before the first
    iteration has ended, the steps so far count.
    """
    if len(step) < 2:
        return np.minimum(part, end - start)
    times, order, known = _iterations(step, start, end, period)
    within = np.minimum(part, end - start)[order][:-1]
    return np.minimum(_periods(within, period).mean(axis=1)[known], times)


def _iterations(
    step: np.ndarray, start: np.ndarray, end: np.ndarray, period: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of whole periods; the steps' order by number; which periods have all of their steps."""
    order = np.argsort(step, kind="stable")
    step, start, end = step[order], start[order], end[order]
    # What lies between two steps is a pause, such as an evaluation, unless the workers meet there: then it may be what
    # they exchange.
    times = np.where(step[1:] % period == 0, start[1:], end[:-1]) - start[:-1]
    known = np.asarray(_periods(np.diff(step) == 1, period).all(axis=1))
    return _periods(times, period).mean(axis=1)[known], order, known


def _periods(values: np.ndarray, period: int) -> np.ndarray:
    """(n) values as (n // period, period); as (1, n) where there are fewer. What is left over at the end goes."""
    length = max(1, min(period, len(values)))
    count = len(values) // length
    return values[: count * length].reshape(count, length)


def median_iteration_ns(
    step: np.ndarray, start: np.ndarray, end: np.ndarray, *, period: int = 1, warm_up: int = WARM_UP_STEPS
) -> float | None:
    """Median iteration time of one worker in ns (see `iteration_times_ns`), its steps below `warm_up` left out; None
    where none remains."""
    warm = step >= warm_up
    times = iteration_times_ns(step[warm], start[warm], end[warm], period=period)
    return float(np.median(times)) if len(times) else None


def job_iteration_ns(medians: Sequence[float | None]) -> float | None:
    """A job's iteration time in ns: that of its slowest worker. None until every worker has one."""
    known = [median for median in medians if median is not None]
    return max(known) if known and len(known) == len(medians) else None


def worker_throughput(samples: np.ndarray, iteration_ns: float | None) -> float | None:
    """Samples per second of one worker: its mean samples per step over its median iteration time.

    The median leaves out pauses where workers meet (an evaluation), unless most meetings have one; a job's throughput
    is the sum over its workers, so that workers of unequal speed (asynchronous modes) count for what they do.
    """
    if iteration_ns is None or not len(samples):
        return None
    return float(np.mean(samples)) * 1e9 / iteration_ns


def union_ns(start: np.ndarray, end: np.ndarray) -> int:
    """Length in ns of the union of intervals: time during which at least one was going on."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum(end, start)[order]
    reached = np.maximum.accumulate(end)
    begins = np.concatenate([start[:1], np.maximum(start[1:], reached[:-1])])
    return int(np.maximum(end - begins, 0).sum())


def exposed_ns(wait_start: np.ndarray, wait_end: np.ndarray) -> int:
    """Exposed communication in ns: time in which a worker computes nothing because a version has not arrived,
    given the `wait` events of its compute track."""
    return union_ns(wait_start, wait_end)


def exposed_share(exposed: float, iteration_ns: float) -> float | None:
    """Exposed communication as a share of the iteration (0 to 1). It needs no limit: `iteration_parts_ns` says why."""
    return exposed / iteration_ns if iteration_ns > 0 else None


def input_share(waited: float, iteration_ns: float) -> float | None:
    """Waiting for input as a share of the iteration (0 to 1), of one worker."""
    return exposed_share(waited, iteration_ns)


# --- processors ---


def processors_share(at: np.ndarray, busy: np.ndarray, from_ns: int, to_ns: int) -> float | None:
    """Share of a machine's processors (0 to 1) that was taken from `from_ns` to `to_ns`, by samples (n) of a sum of
    seconds per processor and their times in ns: how much the sum grew, over the time in which it did. None where fewer
    than two samples lie in between."""
    order = np.argsort(at, kind="stable")
    at, busy = at[order], busy[order]
    within = np.flatnonzero((at >= from_ns) & (at <= to_ns))
    if not len(within) or at[within[0]] == at[within[-1]]:
        return None
    first, last = within[0], within[-1]
    return float(np.clip((busy[last] - busy[first]) * 1e9 / (at[last] - at[first]), 0, 1))


# --- links ---


RateSource = Literal["shaped", "interface", "declared"]


@dataclass(frozen=True, kw_only=True)
class LinkRate:
    """How fast a link can go, per direction, and who says so."""

    rate_bps: int
    source: RateSource


def link_rate(*, shaped: int | None, interface: int | None, declared: int | None) -> LinkRate | None:
    """A link's rate in bit/s: shaped, else the interface's own, else declared. None where none is known: then
    figures show bit/s and never a percentage."""
    if shaped:
        return LinkRate(rate_bps=shaped, source="shaped")
    if interface:
        return LinkRate(rate_bps=interface, source="interface")
    return LinkRate(rate_bps=declared, source="declared") if declared else None


def link_bps(bytes_in_bin: np.ndarray, bin_ns: int) -> np.ndarray:
    """What went over a link in each bin of `bin_ns`, in bit/s."""
    return np.asarray(bytes_in_bin) * (8e9 / bin_ns)


def link_utilization(bytes_in_bin: np.ndarray, bin_ns: int, rate: LinkRate | None) -> np.ndarray | None:
    """Bytes in a bin / (bin x rate), per direction, 1 = full; None without a rate. A layer's utilization is
    the same of the layer's bytes, spread over each slice's interval. Above 1 means that the rate is wrong or
    that the bytes were counted before the limit (into a kernel buffer): it is shown as it is, not clipped."""
    return None if rate is None else link_bps(bytes_in_bin, bin_ns) / rate.rate_bps


def other_bytes(interface_bytes: np.ndarray, layer_bytes: np.ndarray) -> np.ndarray:
    """What the interface counts beyond the layers, per bin: headers, control messages, other programs.

    `layer_bytes` is the layers' sum per bin. Both are compared from the first bin on: a layer's bytes are spread over
    its slice's whole interval, and the counters' over the time between two samples, so that the same bytes may be in
    one bin here and in the next one there. What is other begins where more was counted than all layers have had so far.
    """
    beyond = np.cumsum(interface_bytes) - np.cumsum(layer_bytes)
    return np.diff(np.maximum.accumulate(np.maximum(beyond, 0)), prepend=0)


# --- comparison ---


def median_interval(values: np.ndarray) -> Interval | None:
    """95 % confidence interval of the median of (n) values by order statistics: no distribution is assumed, but that
    the values are independent. None with fewer than MIN_TIMES of them."""
    if len(values) < MIN_TIMES:
        return None
    ordered, (low, high) = np.sort(values), _ends(len(values))
    return float(ordered[low]), float(ordered[high])


def median_error(values: np.ndarray) -> float | None:
    """Standard error of the logarithm of the median of (n) positive values, from how far apart the ends of its interval
    are: the larger the values' own scatter, the further (McKean and Schrader, Communications in Statistics B 13, 1984;
    where normal values of these ranks are expected, by Blom, Statistical Estimates, 1958, so that few values do not
    overstate it). None with fewer than MIN_TIMES of them."""
    interval = median_interval(values)
    if interval is None or interval[0] <= 0:
        return None
    low, high = (NormalDist().inv_cdf((end + 0.625) / (len(values) + 0.25)) for end in _ends(len(values)))
    scatter = np.log(interval[1] / interval[0]) / (high - low)
    return float(np.sqrt(np.pi / 2 / len(values)) * scatter)


def _ends(count: int) -> tuple[int, int]:
    """The places, in ascending order from 0, between which the median lies with 95 %."""
    reach = 0.98 * np.sqrt(count)
    return max(int(np.floor(count / 2 - reach)) - 1, 0), min(int(np.ceil(count / 2 + reach)), count - 1)


def job_throughput(
    workers: Sequence[tuple[np.ndarray, np.ndarray]], present: Sequence[float] | None = None
) -> Estimate | None:
    """A job's samples per second with their interval, of `(samples of each step, iteration times in ns)` of every
    worker: the sum of `worker_throughput`. None until every worker has one. `present`: the share of the time in which
    each was there, where some were lost; by that its rate counts.

    Workers that wait for one another are slow in the same steps, so the ends of their intervals are added as they are;
    where workers are independent of one another the true interval is narrower than that.
    """
    rates, lows, highs = [], [], []
    for (samples, times), share in zip(workers, present or [1.0] * len(workers), strict=True):
        if share <= 0:
            continue
        rate = worker_throughput(samples, float(np.median(times)) if len(times) else None)
        if rate is None:
            return None
        rate *= share
        rates.append(rate)
        if (around := median_interval(times)) is not None and around[0] > 0:
            lows.append(rate * float(np.median(times)) / around[1])
            highs.append(rate * float(np.median(times)) / around[0])
    if not rates:
        return None
    return Estimate(value=sum(rates), interval=(sum(lows), sum(highs)) if len(lows) == len(rates) else None)


def time_to_target_ns(
    time: np.ndarray, value: np.ndarray, target: float, *, goal: Literal["max", "min"]
) -> int | None:
    """When a metric first reached `target` (>= for goal `max`, <= for `min`), in ns; None where it never did.

    `time` (n, ns since the first forward) and `value` (n) of its measurements.
    """
    reached = value >= target if goal == "max" else value <= target
    return int(time[reached].min()) if reached.any() else None


def convergence_speed_up(job_ns: int | None, baseline_ns: int | None) -> float | None:
    """The baseline's time to a target over this job's time to the same one; None where either did not reach
    it."""
    return baseline_ns / job_ns if job_ns and baseline_ns else None


# --- workers that drift ---


def mean_staleness(staleness: np.ndarray, count: np.ndarray) -> float | None:
    """Mean staleness of contributions, so many (n) of each staleness (n); None where there are none."""
    total = int(count.sum())
    return float(np.sum(staleness * count.astype(np.float64))) / total if total else None


def steps_ahead(steps: np.ndarray) -> np.ndarray:
    """By how many steps each worker is ahead of the slowest one: `steps` (workers, ...) that each has ended at the same
    moment."""
    return np.asarray(steps - steps.min(axis=0)) if len(steps) else steps


DEFINITIONS: Mapping[str, str] = {
    "iteration time": (
        "start of forward to start of the next forward: of each worker the median over the window, warm-up left out; "
        "the job's is the slowest worker's; where workers average every k steps, over whole periods of k steps"
    ),
    "exposed communication": (
        "time in which a worker computes nothing because a version has not arrived; of each worker the median over the "
        "window, warm-up left out; the job's is that of the worker that waits most, which is another one than the "
        "slowest where workers are not equally fast"
    ),
    "waiting for input": (
        "time in which a worker computes nothing because its batch is not there: it is read, decoded, transformed or "
        "copied, where input.where says; of each worker the median over the window, warm-up left out, and its share of "
        "that worker's own iteration time; where a CUDA device transforms it, what the device takes for that is not in "
        "it"
    ),
    "clock": (
        "whose times a span has: the host's, or where a CUDA device computes, the device's, by events in its stream; "
        "waits and messages have the host's"
    ),
    "throughput": (
        "samples per second: of each worker its mean samples per step over its own median iteration time, summed over "
        "the workers; the job's iteration time is the slowest worker's alone, so that this is more than the global "
        "batch over it where workers are not equally fast"
    ),
    "processors' share": (
        "time in which the processors that the job may use were not idle, over that of all of them, while its measured "
        "steps ran; of it, the job's own is what its processes took, and the rest is what others did on the machine, "
        "or took from it where it is a virtual one"
    ),
    "link rate": "shaped, else the interface's, else declared; where none is known, only bit/s are shown",
    "link utilization": (
        "bytes in a bin over (bin x rate), per direction; above 100 % a burst was counted within the bin: bytes count "
        "when they are handed over, and a buffer then lets them out at the rate; or, where the rate was only declared, "
        "the link is faster"
    ),
    "layer utilization": (
        "the layer's bytes by the transport's counters, spread over each slice's interval, over "
        "(bin x rate); bytes of a bucket are split by its layers' sizes in it, those of PyTorch's own collectives as "
        "far as the kernel counted them; what the interface counts beyond the layers is other"
    ),
    "speed-up": (
        "this job's throughput over its baseline's at equal global batch (strong scaling) or equal batch per "
        "worker (weak scaling), with equal devices and threads, one job at a time, warm-up left out; its 95 % "
        "interval says how far the steps of these two runs scatter, not how far two runs of one job lie apart: a race "
        "runs each in several rounds, and its intervals are over these"
    ),
    "staleness": (
        "of a worker's contribution to a unit: how many updates the unit has seen between the version that the "
        "contribution was computed on and the update that it is applied in; 0 where nobody else's came in between, as "
        "wherever workers meet in every step; of several that make one update, each has its own, and what is held back "
        "grows stale meanwhile; where workers send updates to one another, each of them counts what it takes"
    ),
    "steps ahead": (
        "how many steps more a worker has ended than the worker that has ended the fewest, at the same moment"
    ),
    "convergence speed-up": (
        "the baseline's time to reach a target over this job's time to reach it, where their speed-up is not refused; "
        "an attempt that goes on from a checkpoint has, too, what the attempts took whose steps it rests on; none for "
        "a job that begins with another job's checkpoint"
    ),
}
"""One sentence for each; the page explains its figures with them."""
