"""A counted worker: what real workers of a job hold at the most in a step, by the count of PyTorch's allocator.

Each runs in a process of its own, whose main thread is counted from before the model is there. What other threads
allocate is not in it: messages that arrive, and what a server beside the worker sums. What they give back of what the
main thread has allocated seems to be there for good: the first worker under DDP has so a copy of the parameters, from
which it sent them to the others.
"""

from __future__ import annotations

import gc
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from engine.benchmarks.harness.hosts import Host, Hosts, tasks
from engine.benchmarks.harness.jobs import prepare
from engine.launch import Launch
from engine.liveness.measured import counted, counting
from engine.plan.cluster import Party
from engine.plan.job import JobSpec
from engine.runtime.worker import Worker


class _Counted(Worker):
    """Counts from before its model is there, and looks at two steps, in which each of two fragments is under way."""

    def __init__(self, launch: Launch, party: Party, step: int) -> None:
        self._step = step
        self._begun_ns = 0
        self._profiler = counting()
        self._profiler.start()
        self.peak = 0
        super().__init__(launch, party)

    def after_step(self, step: int) -> None:
        super().after_step(step)
        if step == self._step - 2:
            self._begun_ns = time.time_ns()
        elif step == self._step:
            self._profiler.stop()
            self.peak = counted(self._profiler, self._begun_ns)


def _main(place: Host, pipe: Connection, directory: str) -> None:
    torch.set_num_threads(1)
    launch = Launch.read(Path(directory))
    steps = launch.job.training.steps
    assert steps is not None
    worker = _Counted(launch, launch.parties[place.index], steps - 2)
    for _ in tasks(pipe):
        gc.collect()
        worker.run()
        pipe.send(worker.peak)


def counted_peaks(spec: JobSpec) -> list[int]:
    """Bytes of each worker at the highest moment of the two steps before a job's last one (with that, averages end).
    The job says how many steps it has, 5 or more."""
    workers = spec.cluster.workers
    with tempfile.TemporaryDirectory(prefix="trainyard-benchmark-") as directory:
        prepare(spec, Path(directory))
        with Hosts(_main, workers, lab=False, argument=directory) as hosts:
            found: list[int] = hosts.ask(["train"] * workers)
    return found
