"""Profiles for rehearsals, measured on this machine: a job's model trains alone for some steps, in a process of its
own, and its recorder says what each layer took. One at a time, because two would measure each other; never beside a job
that runs alone, and jobs that do wait for the end (`Scheduler.aside`).

Each is a file. The newest KEPT stay, and every one that a stored job or race is rehearsed with."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path, PurePath
from typing import Literal

from sqlalchemy import select

from backend.db import Database, models
from backend.executors import scratch
from backend.schemas.profiles import ProfiledLayer, ProfileView
from backend.services.asker import Asker
from backend.services.describing import Allowance, Task, ask
from backend.services.errors import Busy, Conflict
from backend.services.inventory import Inventory
from backend.services.plans import Planner
from backend.services.stored import source_name
from engine.errors import UserError
from engine.launch import write_json
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.profile import Profile

ALLOWED = Allowance(seconds=300, memory_bytes=0)
"""A job has no limit of memory, and what is measured here is a job."""
STEPS = 20
"""Measured, after the warm-up."""
RETRY_AFTER_S = 10
KEPT = 100
"""Each has some kilobytes."""
GPU = "cuda:0"
"""What the measuring process takes."""
MEASURE = Task(
    module="engine.gang.measure",
    doing="measuring the model",
    done="measured",
    devices=True,
    too_long="Measure a smaller batch, or use `trainyard profile`, which has no limit",
    holds="profile",
)
MOST_THREADS = 1_024
"""Of the process: one whose threads run out ends without a word that helps."""


class Profiles:
    """Measures models; safe to call from many threads."""

    def __init__(
        self,
        directory: Path,
        database: Database,
        planner: Planner,
        inventory: Inventory,
        aside: Callable[[str, str | None], AbstractContextManager[None]],
    ) -> None:
        """`aside` keeps whoever runs alone, and others from a device, as long as it is entered."""
        self._directory = directory
        self._database = database
        self._planner = planner
        self._inventory = inventory
        self._aside = aside
        self._one = threading.Lock()
        # The process ends when our end closes, also because we were killed.
        self._lifeline, self._ours = Pipe(duplex=False)
        scratch.remove(directory)  # what a killed server left

    def measure(self, spec: JobSpec, asker: Asker | None = None) -> ProfileView:
        """What each layer of the job's model takes in a pass as large as one of its workers', on the kind of device
        that they compute on. Raises UserError at the job's field, Busy while another model is measured, a job runs
        alone or holds the GPU, Conflict where the result cannot be stored, and Left as soon as the asker is gone: who
        runs alone waits meanwhile."""
        if not self._one.acquire(blocking=False):
            raise Busy(
                f"another model is being measured, and two at once would measure each other. Ask again in "
                f"{RETRY_AFTER_S} s",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            device: Literal["cpu", "cuda"] = "cuda" if self._inventory.computes_on(spec) == "cuda" else "cpu"
            gpu = GPU if device == "cuda" else None
            with self._aside(f"profile of {source_name(to_plain(spec.model))}", gpu):
                self._check_free(gpu)
                return self._measure(spec, device, asker)
        finally:
            scratch.remove(self._directory)
            self._one.release()

    def _check_free(self, gpu: str | None) -> None:
        """Raises Busy."""
        held = self._inventory.held()
        alone = next((job.job_name for job in held.values() if job.alone), None)
        if alone is not None:
            why = f"{alone!r} runs alone, as it asked (cluster.alone; a race's jobs do)"
        elif gpu is not None and gpu in held:
            why = f"{held[gpu].job_name!r} holds {gpu}, on which it would be measured"
        else:
            return
        raise Busy(f"{why}. Ask again when that has ended, or cancel it", retry_after_s=RETRY_AFTER_S)

    def _measure(self, spec: JobSpec, device: Literal["cpu", "cuda"], asker: Asker | None) -> ProfileView:
        if spec.cluster.threads > MOST_THREADS:
            rule = f"a process of at most {MOST_THREADS:,} threads can be measured"
            raise UserError("cluster.threads", spec.cluster.threads, rule, "Use as many as there are cores")
        described = self._planner.describe(spec, asker)
        samples = spec.pass_samples(spec.cluster.workers)
        if described.samples is not None and samples > described.samples:
            rule = f"a worker's pass has {samples:,} samples of it, and the data have {described.samples:,}"
            raise UserError("training.global_batch", spec.training.global_batch, rule, "Use a smaller batch")
        request = {
            "model": to_plain(spec.model),
            "data": to_plain(spec.data),
            "precision": spec.training.precision,
            "batch": samples,
            "steps": STEPS,
            "threads": spec.cluster.threads,
            "device": device,
            "efficiency": spec.rehearsal.efficiency,
        }
        with self._storing():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        begun_ns = time.time_ns()
        temporary = scratch.make(self._directory)
        answer = ask(request, described.name, ALLOWED, self._lifeline, MEASURE, temporary, asker)
        beside = self._inventory.ran(begun_ns, time.time_ns())
        found = from_plain(Profile, answer["profile"])
        path = self._directory / f"{uuid.uuid4().hex}.json"
        view = _view(found, path, device, beside, described)
        with self._storing():
            write_json(path, to_plain(found))
        with suppress(OSError):  # a file too many is in nobody's way
            self._forget()
        return view

    def _forget(self) -> None:
        """Remove what is too old and named by nobody: of each file its name is enough, which no other one has."""
        files = sorted(self._directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        if len(files) <= KEPT:
            return
        specs = (models.Job.spec, models.Race.spec["job"])
        with self._database.read() as session:
            paths = [
                path
                for spec in specs
                for path in session.scalars(select(spec["rehearsal"]["profile"].as_string()).distinct())
            ]
        named = {PurePath(path).name for path in paths if path is not None}
        for path in files[KEPT:]:
            if path.name not in named:
                path.unlink(missing_ok=True)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Conflict(
                f"profiles cannot be stored in {self._directory}: {error.strerror or error}. Make room there, or let "
                "this server write there"
            ) from None

    def close(self) -> None:
        """End what is being measured: the server ends."""
        self._ours.close()


def _view(
    found: Profile,
    path: Path,
    device: Literal["cpu", "cuda"],
    beside: list[str],
    described: ModelDescription,
) -> ProfileView:
    def ms(seconds: float) -> float:
        return 1e3 * found.batch * seconds

    return ProfileView(
        path=str(path.resolve()),
        device=device,
        hardware=found.hardware,
        beside=beside,
        batch=found.batch,
        forward_ms=ms(found.forward_s),
        backward_ms=ms(found.backward_s),
        layers=[
            ProfiledLayer(
                layer=time.layer,
                layer_name=described.layer(time.layer).title,
                forward_ms=ms(time.forward_s),
                backward_ms=ms(time.backward_s),
            )
            for time in found.layers
        ],
    )
