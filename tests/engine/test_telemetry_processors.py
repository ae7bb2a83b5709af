"""How busy the processors are, and how much of it is the job: read from /proc, and recorded."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engine.telemetry.batch import decode
from engine.telemetry.definitions import processors_share
from engine.telemetry.processors import (
    BUSY,
    OWN,
    ProcessorSampler,
    busy_seconds,
    members,
    processor_seconds,
)
from engine.telemetry.recorder import Recorder

TICKS = os.sysconf("SC_CLK_TCK")
SECOND = 10**9


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine of three processors, and processes of two sessions."""
    lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
    for number, (busy, idle) in enumerate(((3, 1), (1, 3), (4, 0))):
        # user nice system idle iowait irq softirq steal guest guest_nice: guests are in user already
        fields = [busy * TICKS, 0, 0, idle * TICKS, TICKS, 0, TICKS, TICKS, busy * TICKS, 0]
        lines.append(f"cpu{number} " + " ".join(map(str, fields)))
    (tmp_path / "stat").write_text("\n".join([*lines, "intr 1 2 3"]))
    for pid, session, ticks in ((10, 7, 2), (11, 7, 3), (12, 8, 100)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", "1", str(session), str(session), *["0"] * 7, str(ticks * TICKS), "0", "0", str(TICKS)]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a name) with) {' '.join(fields)} 0 0")
    (tmp_path / "13").mkdir()  # it has ended meanwhile
    return tmp_path


def test_busy_is_what_is_not_idle_of_the_processors_that_the_job_may_use(proc: Path) -> None:
    assert busy_seconds([0], proc) == 3 + 2
    assert busy_seconds([0, 1], proc) == (5 + 3) / 2
    assert busy_seconds([9], proc) is None
    assert busy_seconds([0], proc / "missing") is None


def test_the_jobs_own_are_the_processes_of_its_session(proc: Path) -> None:
    assert sorted(members(7, proc)) == ["10", "11"]
    assert (members(8, proc), members(6, proc), members(7, proc / "missing")) == (["12"], [], [])
    both = ("10", "11", "13")
    assert processor_seconds(both, proc) == 2 + 1 + 3 + 1, "with what their children took that have ended"
    assert processor_seconds(["12"], proc) == 101
    assert processor_seconds([], proc) is None
    assert processor_seconds(["10"], proc / "missing") is None


def test_a_share_is_how_much_a_sum_grew_within_a_stretch() -> None:
    at = np.array([4, 0, 1, 3, 2]) * SECOND
    busy = np.array([9.0, 5.0, 5.0, 6.5, 5.5])
    assert processors_share(at, busy, 1 * SECOND, 3 * SECOND) == 0.75
    assert processors_share(at, busy, 0, 3 * SECOND + 1) == 0.5
    assert processors_share(at, busy, 0, 9 * SECOND) == 1.0
    assert processors_share(at, busy + 100 * at, 0, 9 * SECOND) == 1.0, "ticks are coarse"
    assert processors_share(at, busy, 3 * SECOND, 3 * SECOND) is None
    assert processors_share(at[:1], busy[:1], 0, 9 * SECOND) is None
    assert processors_share(at[:0], busy[:0], 0, 9 * SECOND) is None


def recorded(recorder: Recorder) -> dict[str, list[float]]:
    recorder.close()
    found: dict[str, list[float]] = {}
    for body in recorder.memory:
        batch = decode(body)
        for row in batch.table("metrics"):
            found.setdefault(batch.metrics[row["name"]], []).append(float(row["value"]))
    return found


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc")
def test_what_this_process_computes_is_seen() -> None:
    recorder = Recorder(0, "worker 0", lambda: 0, None)
    sampled = threading.Event()  # the sampler asks for the step when it has read both sums

    def step() -> int:
        sampled.set()
        return 3

    sampler = ProcessorSampler(recorder, step)
    assert sampled.wait(60)
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    sampler.close()
    found = recorded(recorder)
    assert set(found) == {BUSY, OWN}
    assert len(found[BUSY]) == len(found[OWN]) >= 2
    computed = 0.3 / len(os.sched_getaffinity(0))
    assert found[OWN][-1] - found[OWN][0] >= computed - 2 / TICKS
    assert found[BUSY] == sorted(found[BUSY])


def test_where_the_machine_says_nothing_nothing_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(0, "worker 0", lambda: 0, None)
    ProcessorSampler(recorder, lambda: 0, proc=tmp_path).close()
    assert recorded(recorder) == {}
