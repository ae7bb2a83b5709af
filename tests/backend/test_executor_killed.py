"""What the local executor keeps beyond the contract: whoever is killed, nothing of it is left on this machine."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from backend.executors import process
from backend.executors.base import Handle
from backend.executors.local import LocalExecutor
from backend.executors.supervised import Supervised
from backend.lifecycle import Reason
from tests.backend.executor_attempts import (
    NOWHERE,
    ORPHAN_S,
    all_gone_in_the_end,
    ended,
    launch,
    nothing_left,
    programs_executor,
    running,
    strangers,
    until,
)


@pytest.fixture
def executor(server_lane: None, tmp_path: Path) -> Iterator[LocalExecutor]:
    with all_gone_in_the_end(programs_executor(), tmp_path) as made:
        yield made


def test_a_supervisor_lost_while_running_is_told_and_its_processes_die(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    handle = executor.launch(launch(tmp_path, "stubborn"), NOWHERE)
    running(executor, handle)
    until(lambda: len(process.marked(tmp_path / "attempt")) >= 3, "with two workers")
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    end = ended(executor, handle)
    assert (end.status, end.reason, end.party) == ("failed", Reason.SUPERVISOR_LOST, "supervisor")
    assert "killed by SIGKILL" in end.message
    assert nothing_left(tmp_path)
    assert executor.poll(handle) == end


def test_processes_die_with_their_supervisor_also_without_a_server(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    handle = executor.launch(launch(tmp_path, "stubborn"), NOWHERE)
    running(executor, handle)
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    until(lambda: nothing_left(tmp_path), "nothing is left", within_s=ORPHAN_S)  # nobody polls


def test_a_stranger_of_a_process_that_ended_is_killed(executor: LocalExecutor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "leaves a stranger"), NOWHERE)
    assert ended(executor, handle).status == "succeeded"
    assert strangers(tmp_path) == []


@pytest.mark.parametrize("killed", ["what was started first", "its child", "a worker", "nobody: stopped"])
def test_whatever_is_killed_no_stranger_is_left(executor: LocalExecutor, tmp_path: Path, killed: str) -> None:
    handle = executor.launch(launch(tmp_path, "starts strangers"), NOWHERE)
    until(lambda: len(strangers(tmp_path)) == 2, "each of two workers has started one")
    if killed == "nobody: stopped":
        executor.stop(handle)
    else:
        process.send(victim(handle, killed), signal.SIGKILL)
    until(lambda: not strangers(tmp_path), "no stranger is left", within_s=ORPHAN_S)  # nobody polls
    until(lambda: nothing_left(tmp_path), "nothing is left", within_s=ORPHAN_S)
    end = ended(executor, handle)
    assert end.reason == {
        "what was started first": Reason.SUPERVISOR_LOST,
        "its child": Reason.SUPERVISOR_LOST,
        "a worker": Reason.PROCESS_KILLED,
        "nobody: stopped": Reason.CANCELLED,
    }[killed]  # fmt: skip


def victim(handle: Handle, name: str) -> process.Identity:
    if name == "what was started first":
        return Supervised.of(handle).identity
    if name == "its child":
        parents = {s.pid: s.parent for s in process.all_processes()}
        below = process.descendants(Supervised.of(handle).identity.pid)
        return next(p for p in below if parents.get(p.pid) == Supervised.of(handle).identity.pid)
    return worker_of(Supervised.of(handle).directory, b"start_new_session")


def test_a_poll_between_the_death_of_the_first_and_that_of_the_others_leaves_no_stranger(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    handle = executor.launch(launch(tmp_path, "starts strangers"), NOWHERE)
    until(lambda: len(strangers(tmp_path)) == 2, "each of two workers has started one")
    for each in process.descendants(Supervised.of(handle).identity.pid):
        if b"gang_of_programs" in Path(f"/proc/{each.pid}/cmdline").read_bytes():
            process.send(each, signal.SIGSTOP)  # it can end nothing: the poll must
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    assert ended(executor, handle).reason == Reason.SUPERVISOR_LOST
    assert strangers(tmp_path) == []


def test_a_killed_worker_is_named_and_the_others_end(executor: LocalExecutor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "stubborn"), NOWHERE)
    running(executor, handle)
    process.send(worker_of(tmp_path / "attempt"), signal.SIGKILL)
    end = ended(executor, handle)
    assert (end.status, end.reason, end.exit_code) == ("failed", Reason.PROCESS_KILLED, -9)
    assert str(end.party).startswith("worker ")
    assert nothing_left(tmp_path)


def worker_of(directory: Path, program: bytes = b"SIG_IGN") -> process.Identity:
    """A process of the gang, by a word of its program; without one, of `stubborn` programs. One that has just been
    forked shows the program of whoever forked it."""

    def look() -> process.Identity | None:
        for found in process.marked(directory):
            with suppress(OSError):  # it has ended since it was listed
                if program in Path(f"/proc/{found.pid}/cmdline").read_bytes():
                    return found
        return None

    return until(look, "a worker is there")


@pytest.mark.parametrize("force", [False, True])
def test_an_attempt_whose_directory_vanished_still_ends(
    executor: LocalExecutor, tmp_path: Path, *, force: bool
) -> None:
    handle = executor.launch(launch(tmp_path, "stubborn"), NOWHERE)
    running(executor, handle)
    shutil.rmtree(tmp_path / "attempt")
    executor.stop(handle, force=force)
    executor.stop(handle, force=force)
    end = ended(executor, handle)
    assert (end.status, end.reason) == ("failed", Reason.DIRECTORY_LOST)
    assert executor.poll(handle) == end
    assert nothing_left(tmp_path)
