"""Attempts to launch, and ways to wait for them: what the tests of executors and scheduler stand on."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from backend.executors import process
from backend.executors.base import Ended, Executor, Handle, Ingest, Running
from backend.executors.local import LocalExecutor
from engine.launch import Launch
from engine.plan.description import LayerDescription, ModelDescription, ParameterDescription
from engine.plan.job import ClusterSpec, JobSpec, SourceSpec, TrainingSpec
from engine.plan.plan import LayerPlan, Plan

T = TypeVar("T")
E = TypeVar("E", bound=Executor)
DEADLINE_S = 120.0
"""What comes at all has come by then, also on a machine that others use."""
ORPHAN_S = 60.0
"""Who lives longer than this after an attempt ended, or after its supervisor died, is an orphan."""
NOWHERE = Ingest(url="http://127.0.0.1:9", attempt=1, token="nowheres-token", drain_s=0)
"""A server that does not answer, and no patience with it."""

MODEL = ModelDescription(
    name="one-layer",
    layers=(
        LayerDescription(
            name="fc",
            kind="Linear",
            index=0,
            parameters=(ParameterDescription(name="fc.weight", shape=(2, 2), dtype="float32"),),
        ),
    ),
)
PLAN = Plan(strategy="single", layers=(LayerPlan(layer="fc"),))


def programs_executor() -> LocalExecutor:
    """The local executor, with gangs of small programs (see gang_of_programs.py)."""
    return LocalExecutor([sys.executable, "-P", "-m", "tests.backend.gang_of_programs"])


def job(name: str, workers: int = 2, *, alone: bool = False, **fields: Any) -> JobSpec:
    """`name` says what its processes do."""
    return JobSpec(
        name=name,
        model=SourceSpec(name="one-layer"),
        data=SourceSpec(name="digits"),
        cluster=ClusterSpec(workers=workers, alone=alone),
        training=TrainingSpec(steps=1),
        **fields,
    )


def launch(directory: Path, name: str, workers: int = 2) -> Launch:
    return Launch(
        attempt=1,
        job=job(name, workers),
        plan=PLAN,
        model=MODEL,
        directory=directory / "attempt",
        epoch_unix_ns=time.time_ns(),
        devices=("cpu",) * workers,
    )


def until(found: Callable[[], T | None], what: str, *, within_s: float = DEADLINE_S) -> T:
    """The first answer that is true."""
    deadline = time.monotonic() + within_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not after {within_s:g} s: {what}"
        time.sleep(0.02)
    return answer


def ended(executor: Executor, handle: Handle) -> Ended:
    """How it ended, once it has."""

    def look() -> Ended | None:
        report = executor.poll(handle)
        return report if isinstance(report, Ended) else None

    return until(look, "the attempt has ended")


def running(executor: Executor, handle: Handle) -> None:
    until(lambda: executor.poll(handle) == Running(phase="running"), "the attempt runs")


@contextmanager
def empty_in_the_end() -> Iterator[None]:
    """The system's folder for temporary files, which a test begins with empty, is empty again when it has ended."""
    with tempfile.TemporaryDirectory(prefix="ty-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        yield
        until(lambda: not os.listdir(folder), "no temporary file is left", within_s=ORPHAN_S)  # noqa: PTH208


def nothing_left(directory: Path) -> bool:
    """Whether no process of the attempt that `launch` made there is left."""
    return process.marked(directory / "attempt") == []


def strangers(directory: Path) -> list[int]:
    """What the attempt's programs started without any environment, in sessions of their own: found by their
    arguments, so that this does not look the way the executor does."""
    ends, found = f"\0stranger\0{directory / 'attempt'}\0".encode(), []
    for each in process.all_processes():
        with suppress(OSError):
            if Path(f"/proc/{each.pid}/cmdline").read_bytes().endswith(ends):
                found.append(each.pid)
    return found


@contextmanager
def all_gone_in_the_end(executor: E, directory: Path) -> Iterator[E]:
    """The executor, for a test whose attempt is in `directory`: what still runs when the test has ended is killed."""
    with empty_in_the_end():
        yield executor
        assert process.kill_marked(directory / "attempt") == []
        if (directory / "attempt").is_dir() and (handle := executor.find(directory / "attempt")):
            executor.stop(handle, force=True)  # what it had started elsewhere
            ended(executor, handle)
        for left in strangers(directory):
            os.kill(left, signal.SIGKILL)
