"""A job, or a race's jobs, as runs of an MLflow tracking server or store.

A job is one run: its resolved specification as parameters, every series as a metric by step, its name, strategy and
tags as tags. A race is a run of its own with its report as an artifact, and its jobs are runs within that one. A job
that is there already (by the tag `trainyard.job`) is not written twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from backend.client import ENDED, Client
from backend.exports.series import Reader, flat
from backend.schemas.jobs import Job
from engine.errors import UserError

METRICS_AT_ONCE, PARAMS_AT_ONCE = 1_000, 100
"""As many as one request of MLflow's may hold."""
LONGEST_PARAM = 500
"""Characters of a parameter that every MLflow server takes."""
ENDS = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
JOB_TAG, RACE_TAG = "trainyard.job", "trainyard.race"


class Store:
    """One experiment of one tracking server."""

    def __init__(self, uri: str, experiment: str) -> None:
        """`uri`: as MLflow has it, `http://...` or `sqlite:///...`. Raises UserError where MLflow is missing, or where
        the server does not answer as one."""
        try:
            from mlflow import MlflowClient  # noqa: PLC0415 - an extra
            from mlflow.exceptions import MlflowException  # noqa: PLC0415
        except ImportError:
            rule = "mlflow-skinny is not installed"
            raise UserError("--as", "mlflow", rule, "pip install 'trainyard[mlflow]'") from None
        self._refuses = MlflowException
        self._uri = uri
        # A registry of models is not asked for anything, but its address is looked at, too.
        self._mlflow = self._ask(lambda: MlflowClient(tracking_uri=uri, registry_uri=uri))
        found = self._ask(lambda: self._mlflow.get_experiment_by_name(experiment))
        self._experiment: str = (
            found.experiment_id if found else self._ask(lambda: self._mlflow.create_experiment(experiment))
        )

    def add_job(
        self,
        client: Client,
        job_id: str,
        parent: str | None = None,
        on_progress: Callable[[str], None] = print,
    ) -> tuple[str, bool]:
        """Write a job; answers its run's id, and whether it is new. Raises UserError for a job that has not ended: a
        run that is there is not written again."""
        job = client.job(job_id)
        if job.state not in ENDED:
            rule = f"the job is {job.state}: a run is written once, whole"
            raise UserError("job", job_id, rule, "Wait for its end")
        if held := self._held(JOB_TAG, job_id):
            return held, False
        tags = {
            JOB_TAG: job_id,
            "trainyard.strategy": job.strategy,
            "trainyard.model": job.model,
            "trainyard.state": job.state,
            **{f"trainyard.tag.{tag}": "" for tag in job.tags},
        }
        if job.owner:
            tags["mlflow.user"] = job.owner
        run = self._begin(job.name, tags, job.started_at or job.created_at, parent)
        try:
            whole = json.loads(client.specification(job_id, form="json", whole=True))
            self._params(run, flat(whole))
            self._metrics(client, job, run, on_progress)
        except BaseException:
            # A run that is half there would pass for the job the next time.
            self._ask(lambda: self._mlflow.delete_run(run))
            raise
        self._end(run, ENDS[job.state], job.ended_at)
        return run, True

    def add_race(
        self, client: Client, race_id: str, on_progress: Callable[[str], None] = print
    ) -> tuple[str, int]:
        """Write a race that has ended, and its jobs; answers its run's id, and how many jobs are new."""
        race = client.standings(race_id)
        if race.state == "running":
            raise UserError("race", race_id, "the race is running", "Wait for its end, or export its jobs")
        run = self._held(RACE_TAG, race_id)
        if run is None:
            tags = {RACE_TAG: race_id, "trainyard.state": race.state}
            run = self._begin(race.name, tags, race.created_at, None)
            report = client.race_report(race_id)
            self._ask(lambda: self._mlflow.log_text(run, report, "report.html"))
            self._end(run, "FAILED" if race.state == "failed" else "FINISHED", None)
        jobs = [job.id for job in client.jobs(race=race_id) if job.state in ENDED]
        return run, sum(self.add_job(client, job_id, run, on_progress)[1] for job_id in reversed(jobs))

    def _held(self, tag: str, value: str) -> str | None:
        wanted = f"tags.`{tag}` = '{value}'"
        found = self._ask(lambda: self._mlflow.search_runs([self._experiment], wanted, max_results=1))
        return found[0].info.run_id if found else None

    def _begin(self, name: str, tags: dict[str, str], at: datetime, parent: str | None) -> str:
        own = {**tags, "mlflow.source.name": "trainyard"}
        if parent is not None:
            own["mlflow.parentRunId"] = parent
        made = self._ask(
            lambda: self._mlflow.create_run(
                self._experiment, start_time=_milliseconds(at), tags=own, run_name=name
            )
        )
        return str(made.info.run_id)

    def _end(self, run: str, status: str, at: datetime | None) -> None:
        ended = None if at is None else _milliseconds(at)
        self._ask(lambda: self._mlflow.set_terminated(run, status, ended))

    def _params(self, run: str, values: dict[str, Any]) -> None:
        from mlflow.entities import Param  # noqa: PLC0415

        params = [Param(_key(name), str(value)[:LONGEST_PARAM]) for name, value in values.items()]
        for some in _chunks(params, PARAMS_AT_ONCE):
            self._ask(lambda some=some: self._mlflow.log_batch(run, params=some))  # type: ignore[misc]

    def _metrics(self, client: Client, job: Job, run: str, on_progress: Callable[[str], None]) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415

        begun = job.attempts[-1].started_at if job.attempts else None
        begun_ms = _milliseconds(begun or job.created_at)
        written = 0
        for found in Reader(client, job.id).new():
            points = (
                Metric(_key(name), point.value, begun_ms + point.time_ns // 1_000_000, point.step)
                for name, points in found.items()
                for point in points
                if point.value is not None
            )
            for some in _chunks(points, METRICS_AT_ONCE):
                self._ask(lambda some=some: self._mlflow.log_batch(run, metrics=some))  # type: ignore[misc]
                written += len(some)
                on_progress(f"{job.name}: {written} points")

    def _ask(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._refuses as error:
            rule = f"MLflow refused: {str(error)[:500]}"
            raise UserError(
                "--to", self._uri, rule, "Give the address of a tracking server or store"
            ) from None


def _chunks(items: Iterable[Any], size: int) -> Iterable[Sequence[Any]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def _key(name: str) -> str:
    """MLflow takes letters, figures and `_-./ :` in names."""
    return re.sub(r"[^\w\-./ :]", "_", name)[:250]


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e3)
