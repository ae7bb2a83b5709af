"""A job that runs out of memory says what took it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from backend.executors.supervisor import Supervisor
from backend.lifecycle import Reason
from engine.gang.gang import Gang, GangEnd
from engine.gang.kernel_kills import KernelKills, kills
from engine.plan.cluster import Party
from engine.plan.exhausted import holders, remedy
from engine.plan.job import JobSpec, SourceSpec
from engine.runtime.exhausted import asked_for
from engine.state.whereabouts import BYTES
from tests.engine.test_runtime_failures import USER_CODE, wait_until
from tests.jobs import describe, job, plan_of, prepare, run_fresh

WORKER = Party(index=0, name="worker 0", rank=0, shard=None, host="host0")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (
            "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"
            " allocate 268435456 bytes. Error code 12 (Cannot allocate memory)",
            2**28,
        ),
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which",
            5 * 2**29,
        ),
        ("Unable to allocate 1.00 TiB for an array with shape (274877906944,) and data type float32", 2**40),
        ("std::bad_alloc", None),
    ],
)
def test_what_was_asked_for_is_read_off_the_allocators_words(message: str, found: int | None) -> None:
    assert asked_for(message) == found


def test_the_largest_holders_come_first() -> None:
    spec = job(strategy={"name": "single"})
    plan, model = plan_of(spec), describe(spec)
    said = holders(spec, plan, model, WORKER)
    largest = max(model.layers, key=lambda layer: layer.parameter_bytes)
    assert said.startswith("For as long as training lasts, the plan has worker 0 hold parameters ")
    assert f"the layers with the largest parameters are {largest.name} " in said
    alone = replace(model, layers=model.layers[:1])
    name, first = (
        alone.layers[0].name,
        [layer for layer in plan.layers if layer.layer == alone.layers[0].name],
    )
    said = holders(spec, replace(plan, layers=tuple(first)), alone, WORKER)
    assert f"the layer with the largest parameters is {name} " in said
    server = Party(index=1, name="server 0", rank=None, shard=0, host="host1")
    assert "hold nothing" in holders(spec, plan, model, server)


def test_a_remedy_is_what_is_not_done_yet() -> None:
    kept = job(strategy={"name": "single"})
    assert "Let layers recompute" in remedy(kept, plan_of(kept), WORKER)
    done = job(strategy={"name": "single"}, overrides=[{"activations": "recompute"}])
    assert "ecompute" not in remedy(done, plan_of(done), WORKER)
    assert "training.global_batch, now 26" in remedy(done, plan_of(done), WORKER)


def test_the_kernels_own_count_is_found_in_both_versions(tmp_path: Path) -> None:
    cgroup, tree = tmp_path / "cgroup", tmp_path / "fs"
    cgroup.write_text("4:memory:/jobs/one\n0::/\n")
    assert kills(cgroup, tree) is None
    (tree / "memory" / "jobs" / "one").mkdir(parents=True)
    (tree / "memory" / "jobs" / "one" / "memory.oom_control").write_text(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    assert kills(cgroup, tree) == 2
    cgroup.write_text("0::/jobs/one\n")
    assert kills(cgroup, tree) is None
    (tree / "memory.events").write_text("low 0\noom 5\noom_kill 4\n")
    since = KernelKills(cgroup, tree)
    assert not since.any()
    (tree / "memory.events").write_text("low 0\noom 6\noom_kill 5\n")
    assert since.any()
    assert kills(cgroup, tree) == 5, "a container sees its own as the tree's root"


@pytest.mark.usefixtures("gang_lane")
def test_a_batch_that_does_not_fit_is_said_with_layer_holders_and_remedy(tmp_path: Path) -> None:
    spec = _short_of_memory()
    run = run_fresh(spec, tmp_path)
    end = run.end
    assert (end.status, end.party, end.error and end.error["type"]) == (
        "failed",
        "worker 0",
        "OutOfMemoryError",
    )
    for words in (
        "worker 0 could not have 256.0 MiB of the host's memory in forward at 2, in step 0 with passes of 512 samples",
        "Its process held ",
        "its address space is limited to ",
        "the plan has worker 0 hold parameters 32.5 MiB",
        "the layers with the largest parameters are 2 32.5 MiB",
        "Let layers recompute what they save for backward, or swap it out",
        "training.global_batch, now 512",
    ):
        assert words in end.reason, end.reason


def _short_of_memory() -> JobSpec:
    return job(
        model=SourceSpec(entrypoint="short_of_memory:build", directory=str(USER_CODE)),
        strategy={"name": "single"},
        training={"steps": 2, "global_batch": 512},
        optimizer={"name": "sgd", "learning_rate": 0.01},
    )


@pytest.mark.usefixtures("gang_lane")
def test_a_worker_that_the_kernel_has_killed_was_short_of_memory(tmp_path: Path) -> None:
    count = tmp_path / "memory.events"
    count.write_text("oom_kill 3\n")
    (tmp_path / "cgroup").write_text("0::/\n")
    launch = prepare(job(strategy={"name": "single"}, training={"steps": 10_000}), tmp_path / "attempt")
    gang = Gang(launch)
    gang._kernel_kills = KernelKills(tmp_path / "cgroup", tmp_path)
    gang.start()
    try:
        where = launch.whereabouts(launch.parties[0])
        wait_until(lambda: where.exists() and where.stat().st_size == BYTES, "the worker says where it is")
        count.write_text("oom_kill 4\n")  # and not by us: only root may exhaust a cgroup
        os.kill(gang.pids["worker 0"], signal.SIGKILL)
        end = gang.wait(60)
    finally:
        gang.stop()
    assert end is not None
    assert (end.exit_code, end.error and end.error["type"]) == (-signal.SIGKILL, "OutOfMemoryError")
    assert "worker 0 failed: OutOfMemoryError: killed by SIGKILL " in end.reason
    assert (
        "with passes of 26 samples, and the kernel has counted one more process of this cgroup" in end.reason
    )
    assert "the plan has worker 0 hold parameters" in end.reason


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [
        ("OutOfMemoryError", 1, Reason.OUT_OF_MEMORY),
        ("OutOfMemoryError", -9, Reason.OUT_OF_MEMORY),
        ("TrainingError", 1, Reason.PROCESS_FAILED),
        (None, -9, Reason.PROCESS_KILLED),
    ],
)
def test_a_job_that_ran_out_of_memory_has_that_reason(
    kind: str | None, code: int, reason: Reason, tmp_path: Path
) -> None:
    error = None if kind is None else {"type": kind, "message": "no"}
    end = GangEnd(status="failed", reason="worker 0 failed", party="worker 0", exit_code=code, error=error)
    assert Supervisor(tmp_path, Gang)._translate(end).reason is reason
