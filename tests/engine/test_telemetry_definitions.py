"""Every metric's definition on cases small enough to work out by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from engine.telemetry import definitions as d
from engine.telemetry.estimates import Estimate, ratio


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
    assert d.iteration_parts_ns(step, start, end, end - start, period=4).tolist() == [20.0] * 6
    assert d.iteration_parts_ns(step, start, end, end - start).tolist() == (end - start)[:-1].tolist()
    known = step != 10
    assert len(d.iteration_times_ns(step[known], start[known], end[known], period=4)) == 5, (
        "its period is left out"
    )


def test_before_the_first_period_has_passed_its_steps_so_far_count() -> None:
    step, start, end = steps_that_average(5, 9)
    assert d.iteration_times_ns(step, start, end, period=10).tolist() == [20.0]
    parts = d.iteration_parts_ns(step[:3], start[:3], end[:3], np.array([4, 6, 8]), period=10)
    assert parts.tolist() == [5.0], "of the two iterations that have ended"
    assert d.iteration_parts_ns(step[:1], start[:1], end[:1], np.array([4]), period=10).tolist() == [4]
    assert d.iteration_times_ns(step[:1], start[:1], end[:1], period=10).tolist() == []
    assert d.iteration_parts_ns(step[:0], start[:0], end[:0], end[:0], period=10).tolist() == []


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


def test_exposed_time_is_never_more_than_the_iteration_that_it_is_a_part_of() -> None:
    """Of the last step the iteration is not known yet: where only its wait counted, 30 of 28 ns were exposed."""
    step, start = np.arange(3), np.array([0, 10, 38])
    end, exposed = np.array([9, 38, 70]), np.array([2, 28, 30])
    parts = d.iteration_parts_ns(step, start, end, exposed)
    assert parts.tolist() == [2, 28]
    assert (
        d.exposed_share(
            float(np.median(parts)), float(d.median_iteration_ns(step, start, end, warm_up=0) or 0)
        )
        < 1
    )
    random = np.random.default_rng(5)
    for period in (1, 2, 3, 10):
        start = np.cumsum(random.integers(1, 50, 25))
        end = start + random.integers(0, np.diff(start, append=start[-1] + 20) + 1)
        step, exposed = np.arange(25), random.integers(0, 60, 25)
        kept = random.permutation(25)[: random.integers(2, 26)]
        columns = [column[kept] for column in (step, start, end)]
        parts = d.iteration_parts_ns(*columns, exposed[kept], period=period)
        assert (parts <= d.iteration_times_ns(*columns, period=period)).all()


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
    late, early = np.array([0, 11, 0, 11, 0, 13]), np.array([10, 0, 10, 0, 10, 0])
    assert d.other_bytes(late, early).tolist() == [0, 1, 0, 1, 0, 3], "counted a bin later is no other byte"
    assert d.other_bytes(np.zeros(3, int), np.array([1, 2, 3])).tolist() == [0, 0, 0], "nobody counted"


def test_the_medians_interval_covers_the_median_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    intervals = [d.median_interval(random.exponential(size=40)) for _ in range(400)]
    covered = [low <= np.log(2) <= high for low, high in (i for i in intervals if i)]
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize("count", [d.MIN_TIMES, 15, 40, 400])
def test_a_medians_error_is_what_medians_scatter(count: int) -> None:
    random = np.random.default_rng(count)
    drawn = random.lognormal(0, 0.2, (2_000, count))
    errors = [error for values in drawn if (error := d.median_error(values)) is not None]
    assert len(errors) == len(drawn)
    scatter = float(np.std(np.log(np.median(drawn, axis=1)), ddof=1))
    assert 0.9 * scatter <= np.sqrt(np.mean(np.square(errors))) <= 1.15 * scatter
    assert d.median_error(np.full(count, 7.0)) == 0
    assert d.median_error(np.ones(d.MIN_TIMES - 1)) is None


def test_a_jobs_throughput_is_its_workers_sum_with_an_interval() -> None:
    times = np.full(20, 0.5e9)
    times[:4] = 0.4e9, 0.4e9, 1e9, 1e9
    found = d.job_throughput([(np.full(20, 32), times), (np.full(20, 16), times)])
    assert found is not None
    assert (found.value, found.interval) == (96.0, (96.0, 96.0)), "the median is sure"
    few = d.job_throughput([(np.full(5, 32), times[:5])])
    assert (few.value, few.interval) == (64.0, None)  # type: ignore[union-attr]
    assert d.job_throughput([(np.full(20, 32), times), (np.zeros(0), np.zeros(0))]) is None
    assert d.job_throughput([]) is None


def test_the_ratios_interval_covers_the_ratio_as_often_as_it_says() -> None:
    """Two jobs whose iteration times are skewed, as they are on a busy machine: the true speed-up is 2."""
    random = np.random.default_rng(2)

    def measured(scale: float) -> Estimate:
        found = d.job_throughput([(np.full(60, 8), scale * (1 + random.exponential(size=60)))])
        assert found is not None
        return found

    ratios = [ratio(measured(1e6), measured(2e6)) for _ in range(500)]
    covered = [low <= 2 <= high for low, high in (one.interval for one in ratios if one.interval)]
    assert len(covered) == 500
    assert 0.93 <= np.mean(covered) <= 0.995
    assert all(one.interval[0] < one.value < one.interval[1] for one in ratios if one.interval)
    assert ratio(Estimate(value=3), Estimate(value=2)) == Estimate(value=1.5)


def test_convergence_speed_up_is_the_ratio_of_times_to_one_target() -> None:
    time, accuracy = np.array([10, 20, 30, 40]), np.array([0.5, 0.8, 0.7, 0.9])
    assert d.time_to_target_ns(time, accuracy, 0.75, goal="max") == 20
    assert d.time_to_target_ns(time, 1 - accuracy, 0.15, goal="min") == 40
    assert d.time_to_target_ns(time, accuracy, 0.95, goal="max") is None
    assert d.convergence_speed_up(20, 50) == 2.5
    assert d.convergence_speed_up(None, 50) is None


def test_telemetry_needs_no_torch() -> None:
    names = (
        "batch",
        "comparison",
        "definitions",
        "detail",
        "events",
        "recorder",
        "sampler",
        "spool",
        "spread",
        "uploader",
    )
    imports = "; ".join(f"import engine.telemetry.{name}" for name in names)
    code = f"import sys; {imports}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_mean_staleness_is_over_contributions() -> None:
    assert d.mean_staleness(np.array([0, 1, 5], np.int32), np.array([6, 3, 1])) == 0.8
    assert d.mean_staleness(np.array([], np.int32), np.array([], np.int64)) is None
    assert d.mean_staleness(np.array([2**31 - 1], np.int32), np.array([2**53 - 1])) == 2**31 - 1, (
        "no overflow"
    )


def test_who_is_ahead_is_ahead_of_the_slowest() -> None:
    assert d.steps_ahead(np.array([[1, 4], [3, 9], [2, 4]])).tolist() == [[0, 0], [2, 5], [1, 0]]
    assert d.steps_ahead(np.empty((0, 2), int)).tolist() == []
