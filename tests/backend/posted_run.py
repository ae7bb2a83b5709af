"""A run whose telemetry is posted over HTTP, as an attempt's supervisor does it; its figures are known."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job
from backend.ingest import new_token, token_sha256
from backend.lifecycle import Event, Reason
from backend.scheduler import record
from engine.telemetry.detail import DetailPolicy
from engine.telemetry.events import Clock, Kind, Track
from engine.telemetry.recorder import Recorder
from engine.telemetry.resumption import RESUMED

MS = 1_000_000
STEP_MS = (40, 50)
"""Iteration time of each worker: the second one is the slowest."""
STEPS = 20
CLOCKS = (Clock.HOST, Clock.CUDA)
"""Which one says how long each worker's computation took."""
SAMPLES = 16
"""Per worker and step."""
BINARY = "application/octet-stream"


@dataclass(kw_only=True)
class Posted:
    """An attempt and the batches that tell its story."""

    job_id: str
    attempt: int
    token: str
    batches: list[bytes]

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": BINARY}

    def post(self, api: TestClient, body: bytes, **headers: str) -> Any:
        """Send one batch."""
        url = f"/api/v1/attempts/{self.attempt}/batches"
        return api.post(url, content=body, headers=self.headers | headers)

    def post_all(self, api: TestClient) -> None:
        """Send everything."""
        for body in self.batches:
            assert self.post(api, body).status_code == 200

    def seal(self, api: TestClient, last: dict[str, int]) -> Any:
        url = f"/api/v1/attempts/{self.attempt}/seal"
        return api.post(url, json=last, headers={"Authorization": f"Bearer {self.token}"})


def start_attempt(
    api: TestClient, job_id: str, directory: Path, *, devices: dict[str, str] | None = None
) -> Posted:
    """Give a queued job an attempt that runs, as the scheduler does, without any process; `devices` are those that it
    gets, with their models."""
    token = new_token()

    def write(session: Session) -> int:
        job = session.get_one(Job, job_id)
        attempt = Attempt(
            job_id=job_id,
            number=len(job.attempts) + 1,
            parties=["worker 0", "worker 1"],
            devices=["cpu:0", "cpu:1"] if devices is None else list(devices),
            device_models=None if devices is None else list(devices.values()),
            token_sha256=token_sha256(token),
            epoch_unix_ns=time.time_ns(),
            directory=str(directory),
            created_unix_ns=time.time_ns(),
        )
        record.place(session, job, attempt)
        record.advance(session, job, attempt, Event.LAUNCHED)
        record.advance(session, job, attempt, Event.BEGAN)
        return attempt.id

    database = api.app.state.context.database  # type: ignore[attr-defined]
    return Posted(job_id=job_id, attempt=database.writer.run(write), token=token, batches=[])


def end_attempt(api: TestClient, posted: Posted, message: str = "done") -> None:
    """The attempt succeeds with this message, and all that follows from it is stored when this returns."""

    def write(session: Session) -> None:
        attempt = session.get_one(Attempt, posted.attempt)
        for event in (Event.FINISHED, Event.ENDED):
            record.advance(session, attempt.job, attempt, event, reason=Reason.COMPLETED, message=message)

    context = api.app.state.context  # type: ignore[attr-defined]
    context.database.writer.run(write)
    context.speed_ups.look()


def fail_attempt(api: TestClient, posted: Posted) -> None:
    """The attempt fails, and its job queues for another one."""

    def write(session: Session) -> None:
        attempt = session.get_one(Attempt, posted.attempt)
        for event in (Event.FAILED, Event.RETRY):
            record.advance(
                session,
                attempt.job,
                attempt,
                event,
                reason=Reason.PROCESS_KILLED,
                message="worker 0 was killed",
            )

    api.app.state.context.database.writer.run(write)  # type: ignore[attr-defined]


def record_steps(
    posted: Posted,
    *,
    slower: int = 1,
    beside: Mapping[str, float] = MappingProxyType({}),
    before: Mapping[int, float] = MappingProxyType({}),
    first: int = 0,
    inputs: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Record STEPS steps of two workers, and the test accuracy when worker 0 is done, with the values that stand
    `beside` it; `before`: accuracies that were measured after so many steps, when worker 0's next one began. `slower`
    multiplies times. `first`: the step that it goes on from. `inputs`: the share of its steps for which each worker
    waits for data."""
    for worker, step_ms in enumerate(STEP_MS):
        length = step_ms * slower * MS
        now = [STEPS * length]
        recorder = Recorder(
            worker, f"worker {worker}", lambda now=now: now[0], None, attempt=posted.attempt, flush_s=3600,
            detail=DetailPolicy(mode="all"),
        )  # fmt: skip
        for step in range(first, STEPS):
            start = step * length
            middle = start + length // 2
            recorder.event(
                Kind.FORWARD,
                Track.COMPUTE,
                step=step,
                layer=0,
                start=start,
                end=middle,
                clock=CLOCKS[worker],
            )
            recorder.event(
                Kind.SEND,
                Track.SEND,
                step=step,
                layer=0,
                peer=1 - worker,
                start=start,
                end=middle,
                bytes=1000,
            )
            recorder.step(
                step, start=start, end=start + length, samples=SAMPLES, loss=1 / (1 + step), exposed=length // 10,
                compute=length // 2, input=round(inputs[worker] * length),
            )  # fmt: skip
        if worker == 0:
            if first:
                recorder.metric(RESUMED, first, first)
            for after, value in before.items():
                now[0] = after * length
                recorder.metric("test_accuracy", after, value)
            now[0] = STEPS * length
            for name, value in {"test_accuracy": 0.875, **beside}.items():
                recorder.metric(name, STEPS - 1, value)
        recorder.close()
        posted.batches += recorder.memory
