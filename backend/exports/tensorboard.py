"""A job as a run of TensorBoard: every series by step, utilization by step, and its resolved specification as
hyperparameters.

Written with tensorboardX, which writes event files without TensorFlow and without PyTorch. A point's wall time is the
attempt's start and the point's time on the attempt's clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backend.client import ENDED, Client
from backend.exports.series import Reader, flat, utilization_by_step
from engine.errors import UserError

RESULTS = ("loss", "throughput", "test_accuracy")
"""Series whose last value the table of hyperparameters shows."""
LOOK_S = 2.0


def write(
    client: Client,
    job_id: str,
    folder: Path,
    *,
    attempt: int | None = None,
    follow: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write an attempt of the job into `folder`, which TensorBoard then has as one run; `follow`: go on until the job
    has ended. Answers how many points were written; `on_progress` hears it meanwhile. Raises UserError where
    tensorboardX is missing or the folder cannot be written."""
    writer = _writer(folder)
    try:
        return _Run(client, job_id, attempt, writer, on_progress).write(follow)
    finally:
        writer.close()


class _Run:
    def __init__(
        self,
        client: Client,
        job_id: str,
        attempt: int | None,
        writer: Any,
        on_progress: Callable[[int], None],
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._attempt = attempt
        self._writer = writer
        self._on_progress = on_progress
        self._reader = Reader(client, job_id, attempt)
        self._ends: dict[int, int] = {}
        """When each step ended, in ns."""
        self._begun_s = 0.0
        """When the attempt began, in s since 1970."""
        self._points = 0

    def write(self, follow: bool) -> int:
        job = self._client.job(self._job_id)
        self._hyperparameters()
        while True:
            over = job.state in ENDED  # asked before reading: what came until then is read
            shown = [one for one in job.attempts if self._attempt in (None, one.number)]
            if shown and shown[-1].started_at is not None:
                self._begun_s = shown[-1].started_at.timestamp()
            for found in self._reader.new():
                self._ends |= {point.step: point.time_ns for point in found.get("loss", ())}
                for name, points in found.items():
                    self._add(name, points)
            self._writer.flush()
            if over or not follow:
                break
            time.sleep(LOOK_S)
            job = self._client.patiently(lambda: self._client.job(self._job_id))
        links = self._client.links(self._job_id, attempt=self._attempt, bins=None)
        for name, points in utilization_by_step(links, self._ends).items():
            self._add(f"utilization/{name}", points)
        return self._points

    def _add(self, name: str, points: Any) -> None:
        for point in points:
            at_s = self._begun_s + point.time_ns / 1e9
            self._writer.add_scalar(name, point.value, point.step, walltime=at_s)
        self._points += len(points)
        self._on_progress(self._points)

    def _hyperparameters(self) -> None:
        from tensorboardX.summary import hparams  # noqa: PLC0415 - an extra

        whole = json.loads(self._client.specification(self._job_id, form="json", whole=True))
        for summary in hparams(flat(whole), dict.fromkeys(RESULTS, 0.0)):
            self._writer.file_writer.add_summary(summary)


def _writer(folder: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter  # noqa: PLC0415 - an extra
    except ImportError:
        raise UserError(
            "--as", "tensorboard", "tensorboardX is not installed", "pip install 'trainyard[tensorboard]'"
        ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return SummaryWriter(str(folder))
    except OSError as error:
        raise UserError("--out", str(folder), f"cannot be written: {error}", "Name another folder") from None
