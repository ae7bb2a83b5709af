"""Turns: programs that train run in short slices, one after the other, each stopped while another runs.

A machine that others use as well may be twice as fast in one minute as in the next. Whole runs, one after the other, do
not meet that alike, however often they alternate; slices of some seconds do. Each program answers when each of its
steps began; steps within which it was stopped are left out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from engine.benchmarks.harness.machine import ROOT
from engine.benchmarks.harness.pairs import rounds
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain

SLICE_S = 2.0
METHOD = (
    "All run in turns, in slices of seconds, each stopped while another runs (order reversed every other round); the"
    " median iteration within a slice, one ratio per round of slices, and the median of the ratios with the"
    " distribution-free interval of its order statistics."
)
_MOST_ROUNDS = 10_000
_JOB = """
import json, sys, tempfile
from pathlib import Path
import engine
from engine.benchmarks.harness.jobs import Gang, bench_job, prepare  # another commit may have them elsewhere
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain
from engine.telemetry.spool import batches
given = json.loads(sys.argv[1])
spec = from_plain(JobSpec, given["spec"]) if "spec" in given else bench_job(**given["bench_job"])
assert Path(engine.__file__).is_relative_to(Path.cwd()), f"{engine.__file__} is not of {Path.cwd()}"
with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as folder:
    launch = prepare(spec, Path(folder))
    gang = Gang(launch)
    try:
        gang.start()
        end = gang.wait(1800.0)
    finally:
        gang.stop()
    assert end is not None and end.status == "succeeded", end
    own = [batch.table("steps") for batch in batches(launch.spool) if batch.party == 0]
    print(json.dumps([launch.epoch_unix_ns + int(start) for steps in own for start in steps["start"]]))
"""
"""Imports only what all commits have."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A Python program that prints a JSON list in its last line: when each step began, in ns of Unix time."""

    code: str
    arguments: tuple[str, ...]
    tree: Path
    """Whose engine it imports."""


def job_program(spec: JobSpec) -> Program:
    """A job of this engine's; worker 0 says when its steps began."""
    return Program(code=_JOB, arguments=(json.dumps({"spec": to_plain(spec)}),), tree=ROOT)


def job_program_of(tree: Path, **options: Any) -> Program:
    """The job that `bench_job` makes of `options` in another tree, with the engine there."""
    return Program(code=_JOB, arguments=(json.dumps({"bench_job": options}),), tree=tree)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """When one of the programs ran, in ns of Unix time."""

    who: str
    begin_ns: int
    end_ns: int


def take_turns(
    programs: Mapping[str, Program], *, warm_up: int, slice_s: float = SLICE_S
) -> dict[str, list[float]]:
    """Run all to their ends. By name: the median iteration, in ns, of every round in which each had one.

    The first `warm_up` steps are left out. A slice (`slice_s` seconds) should have room for several steps. Raises
    RuntimeError where a program fails, ValueError where no round has a whole iteration of every program.
    """
    slices: list[Slice] = []
    with _started(programs) as running:
        try:
            for _, who in rounds(list(programs), _MOST_ROUNDS):
                if any(process.poll() is not None for process, _ in running.values()):
                    break
                slices.append(_slice(who, running[who][0], slice_s))
        finally:
            for process, _ in running.values():
                _signal(process, signal.SIGCONT)
        starts = {who: np.array(_answer(who, *one)[warm_up:]) for who, one in running.items()}
    found = _rounds(slices, starts, len(programs))
    if not all(found.values()):
        raise ValueError(
            f"no round of slices of {slice_s:g} s has a whole step of each: more steps, or longer slices"
        )
    return found


def _slice(who: str, process: subprocess.Popen[bytes], slice_s: float) -> Slice:
    _signal(process, signal.SIGCONT)
    begin_ns = time.time_ns()
    with suppress(subprocess.TimeoutExpired):
        process.wait(slice_s)
    end_ns = time.time_ns()
    _signal(process, signal.SIGSTOP)
    return Slice(who=who, begin_ns=begin_ns, end_ns=end_ns)


def _rounds(
    slices: Sequence[Slice], starts: Mapping[str, np.ndarray], programs: int
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {who: [] for who in starts}
    for first in range(0, len(slices) - programs + 1, programs):
        one = {s.who: _iteration_ns(s, starts[s.who]) for s in slices[first : first + programs]}
        if all(one.values()):
            for who, iteration_ns in one.items():
                found[who].append(iteration_ns)
    return found


def _iteration_ns(piece: Slice, starts: np.ndarray) -> float:
    """The median of the iterations that lie within the slice; 0 where none does."""
    inside = starts[(starts >= piece.begin_ns) & (starts <= piece.end_ns)]
    return float(np.median(np.diff(inside))) if len(inside) > 1 else 0.0


@contextmanager
def _started(
    programs: Mapping[str, Program],
) -> Iterator[dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]]]:
    """All of them, stopped; ended, with what they started, when left."""
    running: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
    try:
        for who, program in programs.items():
            output: IO[bytes] = TemporaryFile()  # noqa: SIM115  (open as long as the program)
            process = subprocess.Popen(
                [sys.executable, "-c", program.code, *program.arguments],
                cwd=program.tree,
                env=os.environ | {"PYTHONPATH": str(program.tree)},
                stdout=output,
                start_new_session=True,  # a group of its own, with all that it starts
            )
            running[who] = process, output
            _signal(process, signal.SIGSTOP)
        yield running
    finally:
        for process, output in running.values():
            _signal(process, signal.SIGKILL)
            process.wait()
            output.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _answer(who: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> list[int]:
    if process.wait() != 0:
        raise RuntimeError(f"{who} ended with status {process.returncode}; what it said stands above")
    output.seek(0)
    found: list[int] = json.loads(output.read().splitlines()[-1])
    return found
