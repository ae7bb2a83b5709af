"""Every metric's definition on cases small enough to work out by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from engine.telemetry import definitions as d

BASE = d.RunConditions(
    samples_per_s=100.0,
    workload="resnet on digits",
    global_batch=64,
    workers=1,
    threads=1,
    device="cpu",
    alone=True,
)


def test_iteration_time_is_from_forward_to_forward_of_consecutive_steps() -> None:
    step, start = np.array([3, 1, 2, 7, 8]), np.array([250, 100, 150, 900, 1000])
    assert d.iteration_times_ns(step, start, start + 10).tolist() == [50, 100, 100]
    assert d.iteration_times_ns(step[:1], start[:1], start[:1] + 10).tolist() == []


def test_the_median_leaves_the_warm_up_out() -> None:
    step, start = np.arange(8), np.array([0, 1000, 2000, 3000, 4000, 5000, 5010, 5030])
    assert d.median_iteration_ns(step, start, start) == 15
    assert d.median_iteration_ns(step[:6], start[:6], start[:6]) is None
    assert d.median_iteration_ns(step, start, start, warm_up=0) == 1000


def steps_that_average(first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Step, start and end (ns): 10 ns each, and 50 where the average of every 4 steps is waited for."""
    step = np.arange(first, last + 1)
    end = np.cumsum(np.where(step % 4 == 0, 50, 10))
    return step, np.concatenate([[0], end[:-1]]), end


def test_workers_that_average_have_the_time_of_whole_periods() -> None:
    """Wherever a period begins, it holds one average; a median over single steps would hold none."""
    step, start, end = steps_that_average(5, 30)
    assert d.median_iteration_ns(step, start, end) == 10
    assert d.iteration_times_ns(step, start, end, period=4).tolist() == [20.0] * 6
    assert d.median_iteration_ns(step, start, end, period=4) == 20
    assert d.step_means(step, end - start, period=4).tolist() == [20.0] * 6
    assert d.step_means(step, end - start).tolist() == (end - start).tolist()
    known = step != 10
    assert len(d.iteration_times_ns(step[known], start[known], end[known], period=4)) == 5, (
        "its period is left out"
    )


def test_before_the_first_period_has_passed_its_steps_so_far_count() -> None:
    step, start, end = steps_that_average(5, 9)
    assert d.iteration_times_ns(step, start, end, period=10).tolist() == [20.0]
    assert d.step_means(step[:2], end[:2] - start[:2], period=10).tolist() == [10.0]
    assert d.iteration_times_ns(step[:1], start[:1], end[:1], period=10).tolist() == []
    assert d.step_means(step[:0], end[:0], period=10).tolist() == []


@pytest.mark.parametrize(("after", "counts"), [(9, False), (11, True)])
def test_a_pause_between_steps_counts_only_where_workers_meet(after: int, counts: bool) -> None:
    """After step 11 they average: what lies between may be what they exchange, as after every step of other jobs."""
    step, start, end = steps_that_average(8, 16)
    later = np.where(step > after, 400, 0)
    times = d.iteration_times_ns(step, start + later, end + later, period=4).tolist()
    assert times == ([120.0, 20.0] if counts else [20.0, 20.0])


def test_a_job_is_as_slow_as_its_slowest_worker() -> None:
    assert d.job_iteration_ns([10.0, 30.0, 20.0]) == 30.0
    assert d.job_iteration_ns([10.0, None]) is None
    assert d.job_iteration_ns([]) is None


def test_throughput_counts_samples_per_iteration_time() -> None:
    assert d.worker_throughput(np.array([32, 32, 16]), 0.5e9) == pytest.approx(80 / 3 / 0.5)
    assert d.worker_throughput(np.array([32]), None) is None


def test_exposed_communication_is_the_union_of_waits() -> None:
    assert d.exposed_ns(np.array([0, 5, 20, 6]), np.array([10, 12, 25, 7])) == 17
    assert d.exposed_ns(np.array([]), np.array([])) == 0
    assert d.exposed_share(17, 68) == 0.25


def test_a_link_rate_is_shaped_else_the_interfaces_else_declared_else_unknown() -> None:
    assert d.link_rate(shaped=1, interface=2, declared=3) == d.LinkRate(rate_bps=1, source="shaped")
    assert d.link_rate(shaped=None, interface=2, declared=3) == d.LinkRate(rate_bps=2, source="interface")
    assert d.link_rate(shaped=None, interface=None, declared=3) == d.LinkRate(rate_bps=3, source="declared")
    assert d.link_rate(shaped=None, interface=None, declared=None) is None


def test_link_utilization_is_bytes_over_bin_times_rate() -> None:
    rate = d.LinkRate(rate_bps=8_000_000, source="shaped")
    got = d.link_utilization(np.array([10_000, 5_000, 0]), 10_000_000, rate)
    assert got is not None
    assert got.tolist() == [1.0, 0.5, 0.0]
    assert d.link_utilization(np.array([1]), 10_000_000, None) is None
    assert d.link_bps(np.array([10_000]), 10_000_000).tolist() == [8_000_000.0]
    assert d.other_bytes(np.array([10, 5]), np.array([4, 7])).tolist() == [6, 0]


def test_speed_up_in_strong_and_in_weak_scaling() -> None:
    strong = replace(BASE, samples_per_s=170.0, workers=2)
    assert d.speed_up(strong, BASE, "strong") == d.SpeedUp(value=1.7, scaling="strong")
    weak = replace(strong, global_batch=128)
    assert d.speed_up(weak, BASE, "weak").value == 1.7
    assert "for equal global batches ask for strong" in d.speed_up(strong, BASE, "weak").refused[0].lower()
    assert "for equal batches per worker ask for weak" in d.speed_up(weak, BASE, "strong").refused[0].lower()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"threads": 2}, "threads per worker: 2 here, 1 in the baseline"),
        ({"device": "cuda"}, "device: cuda here, cpu in the baseline"),
        ({"workload": "vgg"}, "work: vgg here"),
        ({"samples_per_s": None}, "this job has none after the warm-up"),
    ],
)
def test_unequal_runs_are_not_compared(change: dict, reason: str) -> None:
    result = d.speed_up(replace(BASE, **change), BASE, "strong")
    assert result.value is None
    assert reason in result.refused[0]


def test_company_during_a_run_is_said() -> None:
    result = d.speed_up(replace(BASE, alone=False), BASE, "strong")
    assert (result.value, result.caveats) == (1.0, ("another job ran on the machine during this job",))
    two = replace(BASE, workers=2)
    result = d.speed_up(replace(two, rate="100Mbit"), two, "strong")
    assert result.caveats == ("network rate: 100Mbit here, unlimited in the baseline",)
    assert d.speed_up(replace(two, rate="100Mbit"), BASE, "strong").caveats == (), (
        "one worker uses no network"
    )


def test_convergence_speed_up_is_the_ratio_of_times_to_one_target() -> None:
    time, accuracy = np.array([10, 20, 30, 40]), np.array([0.5, 0.8, 0.7, 0.9])
    assert d.time_to_target_ns(time, accuracy, 0.75, goal="max") == 20
    assert d.time_to_target_ns(time, 1 - accuracy, 0.15, goal="min") == 40
    assert d.time_to_target_ns(time, accuracy, 0.95, goal="max") is None
    assert d.convergence_speed_up(20, 50) == 2.5
    assert d.convergence_speed_up(None, 50) is None


def test_telemetry_needs_no_torch() -> None:
    names = ("batch", "definitions", "detail", "events", "recorder", "sampler", "spool", "spread", "uploader")
    imports = "; ".join(f"import engine.telemetry.{name}" for name in names)
    code = f"import sys; {imports}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
