"""The local executor with the engine's own gang: real workers that train, fail and are killed."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path

import pytest

from backend.executors import local, process
from backend.executors.base import Ended, Handle, Running
from backend.executors.local import LocalExecutor
from backend.executors.supervised import Supervised
from backend.lifecycle import Reason
from engine import lab
from engine.launch import Launch
from engine.models.describe import describe_request
from engine.plan.job import ClusterSpec, JobSpec, SourceSpec, StrategySpec, TrainingSpec
from engine.plan.network import NetworkSpec
from engine.strategies import build_plan
from tests.backend import warm
from tests.backend.executor_attempts import NOWHERE, empty_in_the_end, ended, until
from tests.labs import needs_lab

pytestmark = pytest.mark.usefixtures("server_lane")


def train(directory: Path, *, steps: int, workers: int = 2, hosts: int | None = None) -> Launch:
    """A small network on the digits under p3."""
    job = JobSpec(
        name="digits",
        model=SourceSpec(name="cnn"),
        data=SourceSpec(name="digits"),
        strategy=StrategySpec(name="p3"),
        cluster=ClusterSpec(workers=workers),
        network=NetworkSpec(hosts=hosts),
        training=TrainingSpec(steps=steps, global_batch=16),
    )
    model = describe_request({"model": {"name": "cnn"}, "data": {"name": "digits"}})
    return Launch(
        attempt=1,
        job=job,
        plan=build_plan(job, model),
        model=model,
        directory=directory / "attempt",
        epoch_unix_ns=time.time_ns(),
        devices=("cpu",) * workers,
    )


def loads_torch(pid: int) -> bool:
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


def workers_of(handle: Handle) -> list[process.Identity]:
    """The fork server and what it started."""
    found = []
    for each in process.descendants(Supervised.of(handle).identity.pid):
        with contextlib.suppress(OSError):  # it has ended since it was listed
            if loads_torch(each.pid):
                found.append(each)
    return found


def test_a_real_job_trains_to_its_end_and_leaves_its_result_and_no_process(tmp_path: Path) -> None:
    executor, launch = LocalExecutor(), train(tmp_path, steps=4)
    with empty_in_the_end():
        end = ended(executor, executor.launch(launch, NOWHERE))
    assert (end.status, end.reason) == ("succeeded", Reason.COMPLETED)
    summary = json.loads((tmp_path / "attempt" / "result" / "summary.json").read_text())
    assert (summary["steps"], summary["samples"]) == (4, 64)
    assert process.marked(tmp_path / "attempt") == []


FAULTS = {
    "raise": (Reason.PROCESS_FAILED, 1, "RuntimeError: injected fault at step 2"),
    "kill": (Reason.PROCESS_KILLED, -signal.SIGKILL, "killed by SIGKILL"),
    "exit": (Reason.PROCESS_FAILED, 3, "ended without a word"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_that_fails_ends_the_job_with_its_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Its supervisor and its gang are forked with what they import loaded: how they start is the others' subject."""
    monkeypatch.setattr(local, "subprocess", warm.PROGRAMS)
    warm.address()
    monkeypatch.setenv("TRAINYARD_FAULT", f"worker 1/2/{fault}")
    reason, exit_code, said = FAULTS[fault]
    executor = LocalExecutor()
    end = ended(executor, executor.launch(train(tmp_path, steps=100_000), NOWHERE))
    assert (end.status, end.reason, end.party, end.exit_code) == ("failed", reason, "worker 1", exit_code)
    assert end.message == f"worker 1 failed: {said} (exit code {exit_code})"
    assert process.marked(tmp_path / "attempt") == []


def test_a_killed_fork_server_is_no_worker_that_failed(tmp_path: Path) -> None:
    executor = LocalExecutor()
    handle = executor.launch(train(tmp_path, steps=100_000), NOWHERE)
    until(lambda: len(workers_of(handle)) == 3, "fork server and two workers are up")
    until(lambda: executor.poll(handle) == Running(phase="running"), "the attempt runs")
    process.send(min(workers_of(handle), key=lambda each: each.start_ticks), signal.SIGKILL)
    end = ended(executor, handle)
    assert (end.status, end.reason, end.party) == ("failed", Reason.PROCESS_KILLED, None)
    assert end.message == (
        "the process that starts workers was killed by SIGKILL (exit code -9): they ended with it"
    )
    assert process.marked(tmp_path / "attempt") == []


def test_a_running_job_is_stopped_and_its_supervisor_never_loads_torch(tmp_path: Path) -> None:
    executor = LocalExecutor()
    handle = executor.launch(train(tmp_path, steps=100_000), NOWHERE)
    until(lambda: len(workers_of(handle)) == 3, "fork server and two workers are up")
    until(lambda: executor.poll(handle) == Running(phase="running"), "the attempt runs")
    assert not loads_torch(Supervised.of(handle).identity.pid)
    environment = Path(f"/proc/{workers_of(handle)[0].pid}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=1" in environment
    executor.stop(handle)
    assert ended(executor, handle).status == "cancelled"
    assert process.marked(tmp_path / "attempt") == []


def test_a_killed_supervisor_takes_its_workers_along(tmp_path: Path) -> None:
    executor = LocalExecutor()
    handle = executor.launch(train(tmp_path, steps=100_000), NOWHERE)
    until(lambda: len(workers_of(handle)) == 3, "fork server and two workers are up")
    process.send(Supervised.of(handle).identity, signal.SIGKILL)
    until(lambda: process.marked(tmp_path / "attempt") == [], "nothing is left, though nobody polls")
    end = executor.poll(handle)
    assert isinstance(end, Ended)
    assert (end.status, end.reason) == ("failed", Reason.SUPERVISOR_LOST)


@pytest.mark.parametrize("killed", ["supervisor", "watchdog"])
def test_the_hosts_of_a_killed_supervisor_are_removed_with_its_workers(tmp_path: Path, killed: str) -> None:
    needs_lab()
    executor = LocalExecutor()
    handle = executor.launch(train(tmp_path, steps=100_000, hosts=2), NOWHERE)

    until(lambda: len(workers_of(handle)) == 3, "fork server and two workers are up")
    below = process.descendants(Supervised.of(handle).identity.pid)
    owners = {(who.pid, who.start_ticks): who for who in below}

    def hosts() -> list[str]:
        return [name for name, owner in lab.owned() if owner in owners]

    assert len(hosts()) == 3
    (supervisor,) = {owners[owner] for _, owner in lab.owned() if owner in owners}
    process.send(Supervised.of(handle).identity if killed == "watchdog" else supervisor, signal.SIGKILL)
    until(lambda: not process.is_alive(Supervised.of(handle).identity), "the watchdog is gone")
    if killed == "watchdog":  # the supervisor's own lab: the server removes it
        assert isinstance(executor.poll(handle), Ended)
    assert hosts() == []
