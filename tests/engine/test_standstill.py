"""Processes that stand still are noticed, and those that only seem to are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from engine.gang.standstill import Standstill


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def at(self, now_s: float) -> None:
        self.now_s = now_s


def seen(standstill: Standstill, clock: Clock, times: list[float], pid: int) -> list[str | None]:
    found = []
    for now_s in times:
        clock.at(now_s)
        found.append(standstill.over({"worker 0": pid}))
    return found


def test_who_is_stopped_for_longer_than_is_allowed_is_named(sleeper: subprocess.Popen[bytes]) -> None:
    clock = Clock()
    standstill = Standstill(3.0, clock)
    assert seen(standstill, clock, [1, 2, 3, 4, 5, 6], sleeper.pid) == [None] * 6, (
        "it waits, and is not stopped"
    )
    stop(sleeper)
    assert seen(standstill, clock, [7, 8, 9, 10, 11], sleeper.pid) == [None] * 4 + ["worker 0"]


def test_who_goes_on_in_time_is_not(sleeper: subprocess.Popen[bytes]) -> None:
    clock = Clock()
    standstill = Standstill(3.0, clock)
    stop(sleeper)
    assert seen(standstill, clock, [1, 2, 3], sleeper.pid) == [None] * 3
    sleeper.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, sleeper.pid, os.WCONTINUED | os.WNOWAIT)
    assert seen(standstill, clock, [4], sleeper.pid) == [None]
    os.waitid(os.P_PID, sleeper.pid, os.WCONTINUED)
    stop(sleeper)
    assert seen(standstill, clock, [5, 6, 7, 8], sleeper.pid) == [None] * 4, "it is counted from anew"


def test_a_pause_of_all_is_nobodys(sleeper: subprocess.Popen[bytes]) -> None:
    """Who looks was stopped, too, as by a machine that sleeps."""
    clock = Clock()
    standstill = Standstill(3.0, clock)
    stop(sleeper)
    assert seen(standstill, clock, [1, 2, 1000, 1001, 1002], sleeper.pid) == [None] * 5


def test_a_process_that_is_gone_does_not_stand(sleeper: subprocess.Popen[bytes]) -> None:
    clock = Clock()
    standstill = Standstill(0.0, clock)
    sleeper.kill()
    sleeper.wait()
    assert seen(standstill, clock, [1, 2, 3], sleeper.pid) == [None] * 3
