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
    assert d.iteration_times_ns(step, start).tolist() == [50, 100, 100]
    assert d.iteration_times_ns(step[:1], start[:1]).tolist() == []


def test_the_median_leaves_the_warm_up_out() -> None:
    step, start = np.arange(8), np.array([0, 1000, 2000, 3000, 4000, 5000, 5010, 5030])
    assert d.median_iteration_ns(step, start) == 15
    assert d.median_iteration_ns(step[:6], start[:6]) is None
    assert d.median_iteration_ns(step, start, warm_up=0) == 1000


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
