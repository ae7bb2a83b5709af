"""The process that starts workers dies while one is to be started anew."""

from __future__ import annotations

import os
import re
import signal
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from engine.gang.restarts import Restarts
from tests.engine.test_rejoin import ASYNC, signalled, spec_of
from tests.engine.test_runtime_failures import gone, started, wait_until


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("when", "said", "exit_code"),
    [
        ("before", "was killed by SIGKILL (exit code -9)", -signal.SIGKILL),
        ("between", "ended", None),
        ("while", "was killed by SIGKILL (exit code -9)", -signal.SIGKILL),
    ],
)
def test_a_worker_that_nobody_can_start_anew_is_no_worker_that_failed(
    when: str, said: str, exit_code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that starts workers is killed before one is to be started anew, after it was seen to live, or once
    multiprocessing, too, has seen that; and nobody has seen yet that all have ended with it."""
    starter = forkserver._forkserver

    def kill() -> None:
        os.kill(starter._forkserver_pid, signal.SIGKILL)
        os.waitid(os.P_PID, starter._forkserver_pid, os.WEXITED | os.WNOWAIT)

    def killing(found: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if answer := found(*arguments):
                kill()
            return answer

        return call

    with started(spec_of(ASYNC, tmp_path, awaits=0, steps=100_000), tmp_path) as gang:
        if when == "before":
            monkeypatch.setattr(Restarts, "is_due", killing(Restarts.is_due))
        elif when == "between":
            monkeypatch.setattr(Restarts, "begin", killing(Restarts.begin))
        else:
            monkeypatch.setattr(starter, "ensure_running", kill)
        signalled(gang, tmp_path)
        end = gang.wait(90.0)
        pids = gang.pids.values()
        wait_until(lambda: gone(pids), "all have ended")
    assert end is not None
    assert (end.status, end.party, end.exit_code) == ("failed", None, exit_code)
    (lost,) = end.lost
    assert re.fullmatch(r"worker 2 was lost after \d+ steps: killed by SIGKILL", lost)
    assert end.reason == f"the process that starts workers {said}: they ended with it; {lost}"
