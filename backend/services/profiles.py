"""Profiles for rehearsals, measured on this machine: a job's model trains alone for some steps, in a process of its
own, and its recorder says what each layer took. One at a time, because two would measure each other."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import Literal

from backend.executors import scratch
from backend.schemas.profiles import ProfiledLayer, ProfileView
from backend.services.describing import Allowance, Task, ask
from backend.services.errors import Busy, Conflict
from backend.services.inventory import Inventory
from backend.services.plans import Planner
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain, to_plain
from engine.profile import Profile
from engine.runtime.launch import write_json

ALLOWED = Allowance(seconds=300, memory_bytes=0)
"""A job has no limit of memory, and what is measured here is a job."""
STEPS = 20
"""Measured, after the warm-up."""
RETRY_AFTER_S = 10
MEASURE = Task(
    module="engine.profile.measure",
    doing="measuring the model",
    done="measured",
    devices=True,
    too_long="Measure a smaller batch, or use `trainyard profile`, which has no limit",
)
MOST_THREADS = 1_024
"""Of the process: one whose threads run out ends without a word that helps."""


class Profiles:
    """Measures models; safe to call from many threads."""

    def __init__(self, directory: Path, planner: Planner, inventory: Inventory) -> None:
        self._directory = directory
        self._planner = planner
        self._inventory = inventory
        self._one = threading.Lock()
        # The process ends when our end closes, also because we were killed.
        self._lifeline, self._ours = Pipe(duplex=False)
        scratch.remove(directory)  # what a killed server left

    def measure(self, spec: JobSpec) -> ProfileView:
        """What each layer of the job's model takes in a pass as large as one of its workers', on the kind of device
        that they compute on. Raises UserError at the job's field, Busy while another model is measured, and Conflict
        where the result cannot be stored."""
        if not self._one.acquire(blocking=False):
            raise Busy(
                f"another model is being measured, and two at once would measure each other. Ask again in "
                f"{RETRY_AFTER_S} s",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            return self._measure(spec)
        finally:
            scratch.remove(self._directory)
            self._one.release()

    def _measure(self, spec: JobSpec) -> ProfileView:
        device: Literal["cpu", "cuda"] = "cuda" if self._inventory.computes_on(spec) == "cuda" else "cpu"
        if spec.cluster.threads > MOST_THREADS:
            rule = f"a process of at most {MOST_THREADS:,} threads can be measured"
            raise UserError("cluster.threads", spec.cluster.threads, rule, "Use as many as there are cores")
        described = self._planner.describe(spec)
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
        answer = ask(request, described.name, ALLOWED, self._lifeline, MEASURE, temporary)
        beside = self._inventory.ran(begun_ns, time.time_ns())
        if error := answer.get("error"):
            raise UserError(error["field"], error["value"], error["rule"], error["remedy"])
        found = from_plain(Profile, answer["profile"])
        path = self._directory / f"{uuid.uuid4().hex}.json"
        with self._storing():
            write_json(path, to_plain(found))
        return _view(found, path, device, beside, described)

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
