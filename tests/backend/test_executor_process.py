"""Processes by identity: never the wrong one, and an attempt is claimed by exactly one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.executors import files, process
from backend.executors.base import Ended
from backend.executors.process import Identity
from backend.executors.supervised import Supervised
from backend.lifecycle import Reason
from tests.backend.executor_attempts import NOWHERE, launch, programs_executor, running, until

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as child:
        yield child
        child.kill()


def identity(pid: int) -> Identity:
    found = process.identity(pid)
    assert found is not None
    return found


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_process_with_the_same_number_is_not_the_same_process(
    sleeper: subprocess.Popen[bytes], change: dict
) -> None:
    mine = identity(sleeper.pid)
    other = replace(mine, **change)
    assert process.is_alive(mine)
    assert not process.is_alive(other)
    assert not process.send(other, signal.SIGKILL)
    assert sleeper.poll() is None
    assert process.send(mine, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_zombie_is_not_alive_and_signalling_what_is_gone_is_harmless() -> None:
    child = subprocess.Popen(SLEEP)
    mine = identity(child.pid)
    process.send(mine, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has asked how
    assert not process.is_alive(mine)
    child.wait()
    assert not process.is_alive(mine)
    assert process.stat(child.pid) is None
    assert not process.send(mine, signal.SIGKILL)


def test_descendants_and_marked_processes_are_found(tmp_path: Path) -> None:
    nest = f"import subprocess, sys; subprocess.run({SLEEP!r})"
    environment = {**os.environ, process.MARKER: str(tmp_path)}
    with subprocess.Popen([sys.executable, "-S", "-c", nest], env=environment) as child:
        found = until(lambda: process.descendants(child.pid), "the child has a child")
        assert {p.pid for p in process.marked(tmp_path)} == {child.pid, found[0].pid}
        assert process.marked(tmp_path / "another") == []
        assert process.kill_marked(tmp_path) == []
        assert child.wait() == -signal.SIGKILL


def test_what_is_killed_is_gone_also_while_the_kernel_takes_its_memory(tmp_path: Path) -> None:
    """It has no environment any more, but its sockets and its place in a lab's host."""
    large = "import time; held = b'x' * 10**9; print('large', flush=True); time.sleep(600)"
    environment = {**os.environ, process.MARKER: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-S", "-c", large], env=environment, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"large\n"
        mine = identity(child.pid)
        assert process.kill_marked(tmp_path) == []
        assert not process.is_alive(mine)


def test_of_many_claims_one_succeeds(tmp_path: Path) -> None:
    me, won = identity(os.getpid()), []
    start = threading.Barrier(2)

    def claim(who: Identity | None) -> None:
        start.wait(60)
        if files.claim(tmp_path, who):
            won.append(who)

    for round_ in range(20):
        won.clear()
        (tmp_path / files.SUPERVISOR).unlink(missing_ok=True)
        threads = [threading.Thread(target=claim, args=(who,), daemon=True) for who in (me, None)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(won) == 1, f"round {round_}"
        assert files.claimed_by(tmp_path) == won[0]


@pytest.mark.usefixtures("server_lane")
def test_after_a_restart_of_the_machine_the_attempt_has_failed(tmp_path: Path) -> None:
    executor = programs_executor()
    handle = executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    running(executor, handle)
    executor.stop(handle, force=True)
    attempt = Supervised.of(handle)
    until(lambda: not process.is_alive(attempt.identity), "the supervisor is gone")
    (attempt.directory / "stop.json").unlink()
    before = replace(attempt, identity=replace(attempt.identity, boot_id="the boot before"))
    end = executor.poll(before.handle())
    assert isinstance(end, Ended)
    assert (end.status, end.reason) == ("failed", Reason.MACHINE_RESTARTED)
