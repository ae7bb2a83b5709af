"""What the client asks about a job's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from backend.connection import Connection
from backend.schemas.checkpoints import Checkpoints, Exported
from backend.schemas.jobs import Job


class CheckpointClient(Connection):
    """The part of `Client` that is about checkpoints."""

    def checkpoints(self, job_id: str) -> Checkpoints:
        """Of which steps a job's model can be exported."""
        return self._read(Checkpoints, "GET", f"/jobs/{job_id}/checkpoints")

    def preempt(self, job_id: str) -> Job:
        """Let a job that runs make room for others: it ends its attempt with a checkpoint, and queues again."""
        return self._read(Job, "POST", f"/jobs/{job_id}/preempt", json={})

    def export(
        self,
        job_id: str,
        file: IO[bytes],
        *,
        step: int | None = None,
        what: Exported = "model",
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Write the job's model to `file` in the safetensors format, after the step of a checkpoint, else as it has
        ended or its newest checkpoint has it; or the state of its `optimizer`, as torch.load reads it. Answers the
        step. `on_progress` hears how many bytes are written."""
        query = {"step": step, "what": what}
        answer = self._fetch(f"/jobs/{job_id}/export", file, on_progress, query)
        return int(answer.headers["Trainyard-Step"])
