"""Whatever happens to one process, the job ends soon, says why, and leaves no process behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import TrainingError
from engine.gang.gang import Gang, GangEnd
from engine.plan.job import LEAST_SILENCE_S, JobSpec
from engine.runtime.evaluation import write_state
from engine.runtime.initial import InitialState
from tests.backend import warm
from tests.jobs import job, prepare, run, run_fresh
from tests.small_disk import small_disk

USER_CODE = Path(__file__).parent / "user_code"
STDERR = 2
SOON_S = 12.0
"""The promise: a job ends soon after the death of one of its processes, in a second or two where nobody else computes.
On a busy machine it may take longer, but less than who falls silent is waited for (15 s)."""


def spec_of(
    strategy: str, workers: int, options: dict[str, Any] | None = None, entry: str = "build", **model: Any
) -> JobSpec:
    return job(
        model={"entrypoint": f"trouble:{entry}", "directory": str(USER_CODE), "options": model},
        strategy={"name": strategy, "options": options or {}},
        cluster={"workers": workers},
        training={"steps": 100_000},
    )


def gone(pids: Iterable[int]) -> bool:
    """Whether none of these processes is alive any more (a zombie is not)."""
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX":
            return False
    return True


def wait_until(condition: Any, what: str, timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.05)


def wait_for_death(pid: int, timeout_s: float = 60.0) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], timeout_s)[0], f"process {pid} is still alive"
    finally:
        os.close(handle)


@contextmanager
def started(spec: JobSpec, directory: Path) -> Iterator[Gang]:
    gang = Gang(prepare(spec, directory))
    gang.start()
    try:
        yield gang
    finally:
        gang.stop()


def end_after_death_of(gang: Gang, party: str) -> GangEnd:
    wait_for_death(gang.pids[party])
    end = gang.wait(SOON_S)
    assert end is not None, f"{party} is dead, and the job still runs after {SOON_S} s"
    assert gone(gang.pids.values())
    assert end.status == "failed"
    return end


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options", "victim", "data_plane"),
    [
        ("parameter-server", {"servers": 1, "where": "dedicated"}, "server 0", "python"),
        ("parameter-server", {"servers": 1, "where": "dedicated"}, "server 0", "c"),
        ("native-allreduce", {}, "worker 1", "python"),
        ("ddp", {}, "worker 0", "python"),
        ("ddp", {"hook": "powersgd", "powersgd_from": 2}, "worker 0", "python"),
    ],
    indirect=["data_plane"],
)
def test_a_killed_process_ends_the_job(
    strategy: str, options: dict[str, Any], victim: str, data_plane: str, tmp_path: Path
) -> None:
    with started(spec_of(strategy, 2, options, marks=str(tmp_path)), tmp_path) as gang:
        wait_until((tmp_path / "worker 1").exists, "step 3 on worker 1")
        os.kill(gang.pids[victim], signal.SIGKILL)
        end = end_after_death_of(gang, victim)
    assert (end.party, end.exit_code) == (victim, -signal.SIGKILL)
    assert "SIGKILL" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_a_job_says_how_long_a_worker_may_stop(tmp_path: Path) -> None:
    spec = spec_of("parameter-server", 2, marks=str(tmp_path))
    spec = replace(spec, cluster=replace(spec.cluster, silence_s=LEAST_SILENCE_S))
    with started(spec, tmp_path) as gang:
        wait_until((tmp_path / "worker 1").exists, "step 3 on worker 1")
        os.kill(gang.pids["worker 1"], signal.SIGSTOP)
        end = gang.wait(60.0)
    assert end is not None, "the job waits for a worker that has stopped"
    assert "lost worker 1: no sign of life" in end.reason
    assert "the job allows 3 s (cluster.silence_s" in end.reason


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_that_stands_still_ends_a_job_in_which_nobody_else_could_miss_it(tmp_path: Path) -> None:
    spec = spec_of("single", 1, marks=str(tmp_path))
    spec = replace(spec, cluster=replace(spec.cluster, silence_s=LEAST_SILENCE_S))
    with started(spec, tmp_path) as gang:
        wait_until((tmp_path / "worker 0").exists, "step 3 on worker 0")
        os.kill(gang.pids["worker 0"], signal.SIGSTOP)
        end = gang.wait(60.0)
        assert end is not None, "the job waits for a worker that has stopped"
        assert gone(gang.pids.values())
    assert (end.status, end.party) == ("failed", "worker 0")
    assert "worker 0 failed: it stands still (stopped by a signal" in end.reason
    assert "the job allows 3 s without a sign of life (cluster.silence_s" in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(("strategy", "trouble"), [("ring-allreduce-overlap", "raise"), ("ddp", "rant")])
def test_the_reason_is_the_own_error_of_who_failed_first(strategy: str, trouble: str, tmp_path: Path) -> None:
    with started(spec_of(strategy, 3, trouble=trouble, marks=str(tmp_path)), tmp_path) as gang:
        end = end_after_death_of(gang, "worker 1")
    assert (end.party, end.exit_code) == ("worker 1", 1)
    assert "this model dislikes Mondays" in end.reason
    assert "(trouble.py, line " in end.reason[:4_000], "all that a job's message has room for"
    assert end.error is not None
    assert end.error["type"] == "ValueError"


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("trouble", "said", "remedy"),
    [
        ("raise", "ValueError: this model dislikes Mondays (", "Correct this place"),
        ("shape", "RuntimeError: mat1 and mat2 shapes cannot be multiplied", "Correct this place"),
        ("key", "KeyError: 'weights\\nof layer 3' (", "Correct this place"),
        ("deep", "RecursionError: maximum recursion depth exceeded", "Correct this place"),
        ("leave", "SystemExit: 0 (", "raise an error that says what is wrong"),
    ],
)
def test_an_error_of_a_users_code_says_place_rule_and_remedy_once(
    trouble: str, said: str, remedy: str, tmp_path: Path
) -> None:
    """And nothing of the frames between."""
    spec = spec_of("single", 1, trouble=trouble, party="worker 0", marks=str(tmp_path))
    end = run(spec, tmp_path).end
    assert end.status == "failed"
    assert f"worker 0 failed: {said}" in end.reason
    assert end.reason.count("(trouble.py, line ") == end.reason.count(" line ") == 1
    assert ("have to take every batch" in end.reason) != (trouble == "leave")
    assert end.reason.count(remedy) == 1
    for frame in ("\n", "^", "site-packages", "Traceback"):
        assert frame not in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("trouble", ["leave", "vanish"])
@pytest.mark.parametrize("workers", [1, 2])
def test_leaving_early_is_a_failure(trouble: str, workers: int, tmp_path: Path) -> None:
    """Also with exit code 0: a job without a result has not succeeded."""
    party = f"worker {workers - 1}"
    spec = spec_of("parameter-server", workers, trouble=trouble, party=party, marks=str(tmp_path))
    with started(spec, tmp_path) as gang:
        end = end_after_death_of(gang, party)
    assert end.party == party
    assert end.reason.startswith(f"{party} failed: ")


@pytest.mark.usefixtures("gang_lane")
def test_a_thread_that_never_ends_does_not_hold_the_job(tmp_path: Path) -> None:
    spec = spec_of("p3", 2, trouble="linger", marks=str(tmp_path))
    spec = replace(spec, training=replace(spec.training, steps=6))
    assert run_fresh(spec, tmp_path).end.status == "succeeded"
    assert (
        "threads are still running, and end with their process: never ends"
        in (tmp_path / "logs" / "worker-1.log").read_text()
    )


@pytest.mark.usefixtures("gang_lane")
def test_a_nan_loss_names_step_and_remedy(tmp_path: Path) -> None:
    end = run_fresh(spec_of("p3", 2, trouble="nan", marks=str(tmp_path)), tmp_path).end
    assert end.status == "failed"
    assert end.party == "worker 1"
    assert "the loss is nan at step 3" in end.reason
    assert "learning_rate" in end.reason


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options", "width"),
    [("parameter-server", {"codec": "int8"}, 2048), ("decentralized-async", {}, 32)],
    ids=["large", "small"],
)
def test_what_a_codec_cannot_express_names_its_layer(
    strategy: str, options: dict[str, Any], width: int, tmp_path: Path
) -> None:
    """A large unit is encoded in the lane's thread, a small one in that which hears messages: none of them is the one
    that trains, and all workers end for that one reason."""
    spec = spec_of(strategy, 2, options, trouble="nan gradient", width=width, marks=str(tmp_path))
    end = run_fresh(spec, tmp_path).end
    said = "TrainingError: what 1 sends holds a value that is not finite"
    assert (end.status, end.party) == ("failed", "worker 1")
    assert f"worker 1 failed: {said}" in end.reason
    assert "Lower the learning rate" in end.reason
    other = json.loads((tmp_path / "errors" / "worker-0.json").read_text())
    assert other["consequence"]
    assert f"lost worker 1: it gave up: {said}" in other["message"]


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("wider_on_one_worker", "its parameters differ from those that the plan was made for"),
        ("other_buffers_on_one_worker", "seen"),
        ("fails_on_one_worker", "no such file: weights.pt"),
    ],
)
def test_a_worker_with_another_model_is_found_at_the_start(entry: str, message: str, tmp_path: Path) -> None:
    end = run_fresh(spec_of("ring-allreduce", 2, entry=entry), tmp_path).end
    assert end.status == "failed"
    assert message in end.reason
    assert not list((tmp_path / "result").iterdir())


@pytest.mark.usefixtures("gang_lane")
def test_an_optimizer_option_that_torch_refuses_is_named(tmp_path: Path) -> None:
    optimizer = {"name": "sgd", "learning_rate": 0.1, "options": {"momentum": -0.9}}
    end = run_fresh(job(optimizer=optimizer, strategy={"name": "p3"}, cluster={"workers": 2}), tmp_path).end
    assert end.status == "failed"
    assert "-0.9" in end.reason
    assert end.error is not None
    assert end.error["user"]["field"] == "optimizer.options"


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize("strategy", ["p3", "ddp"])
def test_stop_ends_every_process_without_force(strategy: str, tmp_path: Path) -> None:
    with started(spec_of(strategy, 2, marks=str(tmp_path)), tmp_path) as gang:
        wait_until((tmp_path / "worker 0").exists, "step 3 on worker 0")
        begun = time.monotonic()
        end = gang.stop(grace_s=30)
        assert time.monotonic() - begun < 30, "SIGTERM was not enough"
        assert end.status == "stopped"
        assert gone(gang.pids.values())
        assert gang.stop() == end


# --- with a supervisor in a process of its own ---


@contextmanager
def supervised(
    directory: Path, *arguments: str, fault: str = ""
) -> Iterator[subprocess.Popen[bytes] | warm.Program]:
    """With a `fault`, of one of the processes, a supervisor that has loaded PyTorch already: it is no part of it."""
    command = [sys.executable, "-m", "tests.engine.gang_program", str(directory), *arguments]
    program: subprocess.Popen[bytes] | warm.Program
    if fault:
        program = warm.Program(
            command,
            env={**os.environ, "TRAINYARD_FAULT": fault},
            cwd=Path.cwd(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=STDERR,
            start_new_session=True,
        )
    else:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    with program:
        try:
            yield program
        finally:
            program.kill()


def heard(program: subprocess.Popen[bytes] | warm.Program, timeout_s: float) -> dict[str, Any]:
    """The program's next line."""
    assert program.stdout is not None
    assert select.select([program.stdout], [], [], timeout_s)[0], f"no word within {timeout_s} s"
    found: dict[str, Any] = json.loads(program.stdout.readline())
    return found


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "fault", "exit_code", "word"),
    [
        ("model-average", "kill", -signal.SIGKILL, "SIGKILL"),
        ("p3", "raise", 1, "injected fault at step 3"),
        ("ring-allreduce", "exit", 3, "without a word"),
    ],
)
def test_injected_faults_end_the_job_with_their_reason(
    strategy: str, fault: str, exit_code: int, word: str, tmp_path: Path
) -> None:
    """Model average: in the middle of a period of 10; the others come as far as its average and wait there."""
    prepare(spec_of(strategy, 3), tmp_path)
    with supervised(tmp_path, fault=f"worker 1/3/{fault}") as program:
        pids = heard(program, 60)
        wait_for_death(pids["worker 1"])
        end = heard(program, SOON_S)
        assert gone(pids.values())
    assert (end["status"], end["party"], end["exit_code"]) == ("failed", "worker 1", exit_code)
    assert word in end["reason"]


@pytest.mark.usefixtures("gang_lane")
def test_nobody_outlives_the_supervisor(tmp_path: Path) -> None:
    spec = spec_of("parameter-server", 2, {"servers": 1, "where": "dedicated"}, marks=str(tmp_path))
    prepare(spec, tmp_path)
    with supervised(tmp_path) as program:
        pids = heard(program, 60)
        wait_until((tmp_path / "worker 0").exists, "step 3 on worker 0")
        program.kill()
        wait_until(lambda: gone(pids.values()), "the end of all workers")


@pytest.mark.usefixtures("gang_lane")
def test_all_processes_start_or_none(tmp_path: Path) -> None:
    prepare(spec_of("parameter-server", 4), tmp_path)
    with supervised(tmp_path, "8") as program:
        said = heard(program, 60)
        assert "Too many open files" in said["error"]
        assert 0 < len(said["pids"]) < 4
        assert gone(said["pids"].values())


def test_a_start_that_does_not_come_says_what_is_missing_from_whom() -> None:
    initial = InitialState({"conv1.weight": torch.zeros(2)}, deadline_s=0.01)
    with pytest.raises(TimeoutError, match=r"conv1\.weight did not arrive within 0 s from worker 0"):
        initial.wait("worker 0")


@pytest.mark.usefixtures("gang_lane")
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("p3", {}),
        pytest.param("ring-allreduce-overlap", {}, marks=pytest.mark.soak),
        ("diloco", {"period": 6}),
    ],
)
def test_who_makes_no_progress_is_named(strategy: str, options: dict[str, Any], tmp_path: Path) -> None:
    """A worker that lives, answers heartbeats and does nothing is named when the deadline has passed. Those that
    average wait for it at the end of the period in the middle of which it stopped."""
    replace(prepare(spec_of(strategy, 3, options), tmp_path), deadline_s=5.0).write()
    with supervised(tmp_path, fault="worker 1/3/hang") as program:
        pids = heard(program, 60)
        end = heard(program, 60)
        assert gone(pids.values())
    assert end["status"] == "failed"
    assert "worker 1" in end["error"]["message"], end["reason"]


def test_a_result_without_room_says_so_and_leaves_the_one_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        path, mebibyte = disk.path / "model.pt", torch.zeros(2**18)
        write_state({"w": mebibyte}, path)
        disk.fill()
        with pytest.raises(TrainingError, match=r"has 1048576 bytes, and \d+ are free under .*Make room"):
            write_state({"w": mebibyte + 1}, path)
        assert [found.name for found in disk.path.glob("model*")] == ["model.pt"]
        assert torch.equal(torch.load(path)["w"], mebibyte)
