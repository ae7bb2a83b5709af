"""When workers were away, as told by metrics, and what that means for how fast a job is."""

from __future__ import annotations

import numpy as np
import pytest

from engine.telemetry.absence import Absence, Said, absences, joined, lost, share_present
from engine.telemetry.definitions import job_throughput


def test_a_worker_is_away_from_its_loss_to_its_return() -> None:
    said = [
        Said(joined(1), 1, 30),
        Said(lost(1), 0, 10),
        Said(lost(1), 1, 50),
        Said(joined(1), 2, 70),
        Said(lost(2), 0, 40),
    ]
    assert absences(said, 3) == {1: [Absence(10, 30), Absence(50, 70)], 2: [Absence(40, None)]}
    assert absences([], 3) == {}


def test_who_is_lost_before_it_has_joined_has_been_away_all_the_time() -> None:
    said = [Said(lost(1), 0, 10), Said(lost(1), 1, 20), Said(joined(1), 2, 30)]
    assert absences(said, 2) == {1: [Absence(10, 30)]}


def test_only_what_falls_into_the_stretch_counts() -> None:
    away = [Absence(0, 10), Absence(50, 60), Absence(90, None)]
    assert share_present(away, 0, 100) == pytest.approx(0.7)
    assert share_present(away, 10, 50) == 1.0
    assert share_present(away, 95, 100) == 0.0
    assert share_present([], 0, 100) == 1.0


def test_a_worker_adds_to_a_jobs_throughput_while_it_is_there() -> None:
    pace = np.full(20, 32), np.full(20, 1e9)
    whole, half = job_throughput([pace, pace]), job_throughput([pace, pace], [1.0, 0.5])
    assert whole is not None
    assert half is not None
    assert (whole.value, half.value) == (64, 48)
    assert half.interval == pytest.approx((48, 48))
    gone = job_throughput([pace, (np.empty(0), np.empty(0))], [1.0, 0.0])
    assert gone is not None
    assert gone.value == 32
