"""What every executor keeps (`backend/executors/base.py`), with real processes."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from socket import create_server

import pytest

from backend.executors import process
from backend.executors.base import Executor, Handle, LaunchError
from backend.executors.ray_gang import place_of
from backend.executors.registry import EXECUTORS, make_executor
from backend.lifecycle import Reason
from engine.errors import UnknownNameError, UserError
from engine.plan.serde import from_plain
from engine.telemetry.batch import Batch, encode
from engine.telemetry.spool import SpoolWriter
from tests.backend.executor_attempts import (
    DEADLINE_S,
    NOWHERE,
    all_gone_in_the_end,
    ended,
    launch,
    programs_executor,
    running,
)
from tests.backend.ray_programs import ray_programs


@contextmanager
def local(_request: pytest.FixtureRequest) -> Iterator[Executor]:
    yield programs_executor()


@contextmanager
def ray(request: pytest.FixtureRequest) -> Iterator[Executor]:
    yield ray_programs(request.getfixturevalue("ray_node"))


WITH_PROGRAMS = {"local": local, "ray": ray}
"""Executors with gangs that start fast."""


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.soak)])
def executor(server_lane: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executor]:
    with WITH_PROGRAMS[request.param](request) as made, all_gone_in_the_end(made, tmp_path):
        yield made


def lies(executor: Executor, tmp_path: Path) -> Path:
    """Where the attempt is on the machine that it runs on."""
    attempt = tmp_path / "attempt"
    return attempt if executor.name == "local" else executor.folder / place_of(attempt)  # type: ignore[attr-defined]


def nothing_left(executor: Executor, tmp_path: Path) -> bool:
    return process.marked(lies(executor, tmp_path)) == []


def test_executors_are_made_by_name_and_an_unknown_name_lists_the_known_ones() -> None:
    assert {name: make_executor(name).name for name in EXECUTORS} == {name: name for name in EXECUTORS}
    with pytest.raises(UnknownNameError, match="Known: local"):
        make_executor("slurm")


def test_an_attempt_that_does_its_work_succeeds_and_leaves_nothing(
    executor: Executor, tmp_path: Path
) -> None:
    end = ended(executor, executor.launch(launch(tmp_path, "work"), NOWHERE))
    assert (end.status, end.reason, end.party, end.exit_code) == ("succeeded", Reason.COMPLETED, None, None)
    assert end.started_unix_ns is not None
    assert end.started_unix_ns < end.ended_unix_ns
    assert nothing_left(executor, tmp_path)


def test_a_job_that_went_on_without_a_worker_succeeds_and_names_it(
    executor: Executor, tmp_path: Path
) -> None:
    end = ended(executor, executor.launch(launch(tmp_path, "goes on"), NOWHERE))
    assert (end.status, end.reason, end.party) == ("succeeded", Reason.COMPLETED, None)
    left = "The job was finished, although workers were lost"
    assert end.message == f"{left}: worker 1 was lost after 37 steps: killed by SIGKILL"


@pytest.mark.parametrize("name", ["fails", "leaves a daemon and fails"])
def test_a_failed_process_gives_its_own_reason_and_the_others_end(
    executor: Executor, tmp_path: Path, name: str
) -> None:
    end = ended(executor, executor.launch(launch(tmp_path, name), NOWHERE))
    assert (end.status, end.reason, end.party, end.exit_code) == (
        "failed",
        Reason.PROCESS_FAILED,
        "worker 1",
        3,
    )
    assert end.message == "worker 1 failed: ValueError: the loss is nan at step 7 (exit code 3)"
    assert end.error == {"type": "ValueError", "message": "the loss is nan at step 7"}
    assert nothing_left(executor, tmp_path)


def test_an_orphan_of_a_process_that_ended_is_killed(executor: Executor, tmp_path: Path) -> None:
    assert (
        ended(executor, executor.launch(launch(tmp_path, "leaves a daemon"), NOWHERE)).status == "succeeded"
    )
    assert nothing_left(executor, tmp_path)


def test_an_attempt_that_does_not_start_says_why(executor: Executor, tmp_path: Path) -> None:
    end = ended(executor, executor.launch(launch(tmp_path, "does not start"), NOWHERE))
    assert (end.status, end.reason) == ("failed", Reason.START_FAILED)
    assert end.message == "RuntimeError: no room for worker 1"
    assert end.started_unix_ns is None


@pytest.mark.parametrize("name", ["sleep", "stubborn"])
def test_stop_ends_as_cancelled_and_leaves_nothing_and_twice_is_harmless(
    executor: Executor, tmp_path: Path, name: str
) -> None:
    handle = executor.launch(launch(tmp_path, name), NOWHERE)
    running(executor, handle)
    executor.stop(handle)
    executor.stop(handle)
    end = ended(executor, handle)
    executor.stop(handle)
    assert (end.status, end.reason) == ("cancelled", Reason.CANCELLED)
    assert executor.poll(handle) == end
    assert nothing_left(executor, tmp_path)


def test_stop_while_it_begins_ends_as_cancelled(executor: Executor, tmp_path: Path) -> None:
    """What a job begins with may take minutes to put together."""
    handle = executor.launch(launch(tmp_path, "begins for long"), NOWHERE)
    executor.stop(handle)
    end = ended(executor, handle)
    assert (end.status, end.reason) == ("cancelled", Reason.CANCELLED)


def test_stop_right_after_launch_ends_as_cancelled(executor: Executor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    executor.stop(handle)
    assert ended(executor, handle).status == "cancelled"
    assert nothing_left(executor, tmp_path)


def test_an_attempt_that_is_preempted_says_so_and_twice_is_harmless(
    executor: Executor, tmp_path: Path
) -> None:
    handle = executor.launch(launch(tmp_path, "makes room"), NOWHERE)
    running(executor, handle)
    for _ in range(2):
        executor.preempt(handle)
    end = ended(executor, handle)
    assert (end.status, end.reason) == ("preempted", Reason.PREEMPTED)
    assert "step 4" in end.message
    executor.preempt(handle)
    assert executor.poll(handle) == end


def test_stop_by_force_ends_everything(executor: Executor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "stubborn"), NOWHERE)
    running(executor, handle)
    executor.stop(handle, force=True)
    assert ended(executor, handle).status == "cancelled"
    assert nothing_left(executor, tmp_path)


def test_an_attempt_is_launched_once(executor: Executor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    running(executor, handle)
    with pytest.raises(LaunchError, match="launched once"):
        executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    running(executor, handle)


@pytest.mark.parametrize("name", ["sleep", "work"])
def test_a_later_executor_goes_on_with_the_handle(executor: Executor, tmp_path: Path, name: str) -> None:
    handle = executor.launch(launch(tmp_path, name), NOWHERE)
    stored = from_plain(Handle, json.loads(json.dumps(asdict(handle))))
    later = type(executor)()
    for method in (later.poll, later.stop, later.preempt):
        with pytest.raises(UserError, match="another executor"):
            method(replace(stored, executor="another executor"))
    handle = stored
    if name == "sleep":
        running(later, handle)
        later.stop(handle)
    assert ended(later, handle).status == ("cancelled" if name == "sleep" else "succeeded")


def test_telemetry_is_sent_to_another_server_and_only_this_user_can_read_where(
    executor: Executor, tmp_path: Path
) -> None:
    handle = executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    running(executor, handle)
    with create_server(("127.0.0.1", 0)) as later:
        executor.redirect(handle, f"http://127.0.0.1:{later.getsockname()[1]}")
        place = lies(executor, tmp_path)
        SpoolWriter(place / "spool", 0).write(0, encode(Batch(attempt=1, party=0, name="w", sequence=0)))
        later.settimeout(DEADLINE_S)
        connection, _ = later.accept()
        with connection:
            assert connection.recv(1000).startswith(b"POST /api/v1/attempts/1/batches")
    own = {*tmp_path.rglob("*"), *place.rglob("*")}
    holders = [p for p in own if p.is_file() and NOWHERE.token.encode() in p.read_bytes()]
    assert [stat.S_IMODE(holder.stat().st_mode) for holder in holders] == [0o600]
    executor.stop(handle, force=True)
    ended(executor, handle)
    executor.redirect(handle, "http://127.0.0.1:9")  # harmless


def test_find_meets_a_launched_attempt_again(executor: Executor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    running(executor, handle)
    assert type(executor)().find(tmp_path / "attempt") == handle


def test_what_was_not_launched_is_not_found(executor: Executor, tmp_path: Path) -> None:
    assert executor.find(tmp_path / "attempt") is None


def test_a_launch_that_fails_leaves_nothing(executor: Executor, tmp_path: Path) -> None:
    (tmp_path / "attempt").write_text("in the way")
    with pytest.raises(LaunchError):
        executor.launch(launch(tmp_path, "sleep"), NOWHERE)
    assert nothing_left(executor, tmp_path)


def test_find_answers_an_ended_attempt_and_poll_its_end(executor: Executor, tmp_path: Path) -> None:
    handle = executor.launch(launch(tmp_path, "work"), NOWHERE)
    end = ended(executor, handle)
    later = type(executor)()
    assert later.find(tmp_path / "attempt") == handle
    assert later.poll(handle) == end
    later.stop(handle, force=True)
    assert later.poll(handle) == end
