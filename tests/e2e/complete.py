"""Waiting for the last of a job's telemetry."""

from __future__ import annotations

import time

from backend.client import Client
from backend.schemas.jobs import Job

LIMIT_S = 60.0


def with_all_telemetry(client: Client, job_id: str) -> Job:
    """The job once its last batch is stored: that may be a moment after its end."""
    deadline = time.monotonic() + LIMIT_S
    while not (job := client.job(job_id)).attempts[-1].sealed:
        assert time.monotonic() < deadline, f"the attempt of {job.name} was not sealed within {LIMIT_S:g} s"
        time.sleep(0.2)
    return job
