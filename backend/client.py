"""A Python client of the service: what a terminal, a notebook or another program submits and reads jobs with.

    from trainyard import Client

    with Client() as trainyard:
        job = trainyard.submit({"name": "digits", "model": {"name": "resnet-digits"}, ...})
        job = trainyard.wait(job.id)
        trainyard.figure(job.id, "timeline").show()

A server that asks for a token gets the one in TRAINYARD_TOKEN. Errors: ServerUnreachableError where nobody answers,
ApiError for everything that the service refuses. Jobs go on while the server restarts, so what waits for them (`wait`,
`follow`) waits for the server, too.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar

from backend.checkpoint_client import CheckpointClient
from backend.connection import ApiError, ServerUnreachableError
from backend.drawn import drawn
from backend.export_client import ExportClient
from backend.lifecycle import said
from backend.maintenance_client import MaintenanceClient
from backend.people_client import PeopleClient
from backend.plan_client import PlanClient
from backend.projects_client import ProjectsClient
from backend.races.spec import RaceSpec
from backend.schemas.base import Schema
from backend.schemas.best import RaceBest
from backend.schemas.catalogue import Device, Lab, Queue, SourceEntry, StrategyEntry
from backend.schemas.figures import Race
from backend.schemas.health import Health
from backend.schemas.jobs import AttemptPage, Deletion, Job, JobGroups, JobPage, JobSummary, TransitionPage
from backend.schemas.links import Links
from backend.schemas.memory import JobMemory
from backend.schemas.races import RacePage, RaceSummary, RaceView
from backend.schemas.staleness import Staleness
from backend.schemas.stretch import LinkStretch
from backend.schemas.telemetry import Events, Logs, MetricNames, Metrics, Recording, SpeedUps, Summary
from backend.schemas.why import Why
from engine.plan.job import JobSpec
from engine.plan.serde import to_plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ENDED", "ApiError", "Client", "ServerUnreachableError"]
T = TypeVar("T", bound=Schema)
ENDED = frozenset({"succeeded", "failed", "cancelled"})
RETRIES = 3
"""Attempts at a submission whose answer got lost; its idempotency key makes them one."""
PARTLY, GONE = 202, 404
"""Answers to a deletion: it is to be asked for again; there is no such job."""


def each(given: Any) -> list[Any]:
    """What somebody gave several of, or one by itself: a text, a number or a mapping. None: nothing."""
    if given is None:
        return []
    alone = isinstance(given, str | Mapping) or not isinstance(given, Iterable)
    return [given] if alone else list(given)


class Client(PlanClient, PeopleClient, ProjectsClient, MaintenanceClient, CheckpointClient, ExportClient):
    """Everything that the service can be asked, as methods."""

    # --- jobs ---

    def submit(self, spec: JobSpec | Mapping[str, Any], *, key: str | None = None) -> Job:
        """Submit a job. A lost answer is asked for again under the same key, which cannot make a second job."""
        return self._submit("/jobs", to_plain(spec), key)

    def _submit(self, path: str, body: Any, key: str | None) -> Job:
        return self._once(Job, path, body, key)

    def _once(self, kind: type[T], path: str, body: Any, key: str | None) -> T:
        """Make one thing, whichever answers get lost."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        for left in reversed(range(RETRIES)):
            try:
                return self._read(kind, "POST", path, json=body, headers=headers)
            except ServerUnreachableError:
                if not left:
                    raise
                time.sleep(0.5)
        raise AssertionError("unreachable")

    def jobs(self, *, limit: int | None = None, **filters: Any) -> Iterator[JobSummary]:
        """Jobs, newest first or by `sort`, page by page; `filters`: sort, state, strategy, model, dataset, rehearsed,
        baseline, text, created_from, created_to, tag, owner, tagged, race, raced."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            size = 200 if left is None else min(left, 200)
            page = self._read(JobPage, "GET", "/jobs", params={**filters, "limit": size, "cursor": cursor})
            yield from page.items
            left = None if left is None else left - len(page.items)
            if (cursor := page.next_cursor) is None:
                return

    def job(self, job_id: str) -> Job:
        """One job, whole."""
        return self._read(Job, "GET", f"/jobs/{job_id}")

    def attempts(self, job_id: str, **query: Any) -> AttemptPage:
        """A page of a job's attempts, newest first; `query`: state, limit, cursor."""
        return self._read(AttemptPage, "GET", f"/jobs/{job_id}/attempts", params=query)

    def history(self, job_id: str, **query: Any) -> TransitionPage:
        """A page of its changes of state, oldest first; `query`: attempt, to_state, limit, cursor."""
        return self._read(TransitionPage, "GET", f"/jobs/{job_id}/history", params=query)

    def cancel(self, job_id: str) -> Job:
        """Ask for a job's end."""
        return self._read(Job, "POST", f"/jobs/{job_id}/cancel", json={})

    def stop(self, job_id: str, *, timeout_s: float) -> Job:
        """The job once it has ended: it is cancelled unless it ends by itself first. Raises as `wait` does."""
        try:
            self.cancel(job_id)
        except ApiError:
            if self.job(job_id).state not in ENDED:
                raise
        return self.wait(job_id, timeout_s=timeout_s)

    def choose_baseline(self, job_id: str, baseline: str | None) -> Job:
        """Measure a job's speed-up against another job from now on, or against none."""
        return self._read(Job, "PUT", f"/jobs/{job_id}/baseline", json={"baseline": baseline})

    def specification(self, job_id: str, *, form: str = "yaml", whole: bool = False) -> str:
        """What a job was asked to be, as `yaml` or `json` that can be submitted again; `whole`: with every default."""
        query = {"form": form, "whole": whole}
        return self._send("GET", f"/jobs/{job_id}/specification", params=query).text

    def label(self, job_id: str, *, tags: Sequence[str]) -> Job:
        """Give a job these tags in place of those that it has."""
        return self._read(Job, "PATCH", f"/jobs/{job_id}", json={"tags": list(tags)})

    def note(self, job_id: str, text: str | None) -> Job:
        """Write a note about a job; None takes it away."""
        return self._read(Job, "PATCH", f"/jobs/{job_id}", json={"note": text})

    def job_groups(self, by: str, **filters: Any) -> JobGroups:
        """How many jobs there are of each `model`, `strategy`, `tag` or `race`; `filters` as for `jobs`."""
        return self._read(JobGroups, "GET", "/job-groups", params={"by": by, **filters})

    def clone(self, job_id: str, changes: Mapping[str, Any] | None = None, *, key: str | None = None) -> Job:
        """Submit a job's specification once more. `changes` replace what they name, object by object; None gives a
        field its default: `client.clone(id, {"name": "wider", "cluster": {"workers": 4}})`."""
        return self._submit(f"/jobs/{job_id}/clone", dict(changes or {}), key)

    def delete(self, job_id: str, *, on_progress: Callable[[float], None] = lambda _: None) -> None:
        """Remove a job that has ended, with everything that was recorded of it; where that is much, `on_progress`
        hears every few seconds which share is gone."""
        gone = 0
        as_json = {"Content-Type": "application/json"}
        try:
            while (answer := self._send("DELETE", f"/jobs/{job_id}", headers=as_json)).status_code == PARTLY:
                part = Deletion.model_validate_json(answer.content)
                gone += part.rows_deleted
                on_progress(gone / (gone + part.rows_left))
        except ApiError as error:
            if not (gone and error.status == GONE):  # somebody else deletes it, too, and was faster
                raise

    def wait(
        self,
        job_id: str,
        *,
        timeout_s: float | None = None,
        poll_s: float = 0.5,
        on_look: Callable[[Job], None] = lambda _: None,
    ) -> Job:
        """The job when it has ended; `on_look` sees it until then. Raises TimeoutError after `timeout_s`,
        ServerUnreachableError where the server stays away."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (job := self.patiently(lambda: self.job(job_id), until=deadline)).state not in ENDED:
            on_look(job)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} is still {said(job.state)} after {timeout_s:g} s")
            time.sleep(poll_s)
        return job

    # --- races ---

    def start_race(self, spec: RaceSpec | Mapping[str, Any], *, key: str | None = None) -> RaceView:
        """Race strategies on one model: `client.start_race({"job": {...}, "members": [{"strategy": "p3"}, ...]})`. A
        lost answer is asked for again, as with `submit`."""
        return self._once(RaceView, "/races", to_plain(spec), key)

    def races(self, **query: Any) -> RacePage:
        """A page of races, newest first; `query`: limit, cursor, text."""
        return self._read(RacePage, "GET", "/races", params=query)

    def standings(self, race_id: str) -> RaceView:
        """One race with its rankings as they stand."""
        return self._read(RaceView, "GET", f"/races/{race_id}")

    def best(self, race_id: str) -> RaceBest:
        """Which plan of a race is best, by four criteria, and how each learned."""
        return self._read(RaceBest, "GET", f"/races/{race_id}/best")

    def race_report(self, race_id: str) -> str:
        """One race as an HTML file that needs nothing else."""
        return self._send("GET", f"/races/{race_id}/report").text

    def race_figure(self, race_id: str, name: str = "throughput", **query: Any) -> go.Figure:
        """One figure of a race: `throughput` against the rate, with the crossings marked, or how its plans learned,
        `learning`; `query`: width, theme, and of the latter `by` (step, samples, bytes, time) and `condition`."""
        return drawn(self._send("GET", f"/races/{race_id}/figures/{name}", params=query).text)

    def join_race(self, race_id: str, members: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> RaceView:
        """Let more members race, or one."""
        return self._read(RaceView, "POST", f"/races/{race_id}/members", json={"members": each(members)})

    def cancel_race(self, race_id: str) -> RaceSummary:
        """End a race and the job of it that runs; the race as lists have it."""
        return self._read(RaceSummary, "POST", f"/races/{race_id}/cancel", json={})

    def delete_race(self, race_id: str) -> None:
        """Forget a race that does not run; its jobs stay."""
        self._send("DELETE", f"/races/{race_id}", headers={"Content-Type": "application/json"})

    def wait_for_race(
        self, race_id: str, *, poll_s: float = 1.0, on_look: Callable[[RaceView], None] = lambda _: None
    ) -> RaceView:
        """The race when it has ended; `on_look` sees it until then."""
        while (race := self.patiently(lambda: self.standings(race_id))).state == "running":
            on_look(race)
            time.sleep(poll_s)
        return race

    # --- what was recorded ---

    def summary(self, job_id: str, *, baseline: str | None = None, attempt: int | None = None) -> Summary:
        """The figures of an attempt (1 is the first; without one, the latest), compared with the job's own baseline or
        another job."""
        query = {"baseline": baseline, "attempt": attempt}
        return self._read(Summary, "GET", f"/jobs/{job_id}/summary", params=query)

    def metrics(self, job_id: str, name: str | None = None, **query: int | None) -> Metrics:
        """Series by name; `query`: attempt, step_from, step_to."""
        return self._read(Metrics, "GET", f"/jobs/{job_id}/metrics", params={"name": name, **query})

    def metric_names(self, job_id: str, *, attempt: int | None = None) -> MetricNames:
        """The series that `metrics` has."""
        return self._read(MetricNames, "GET", f"/jobs/{job_id}/metrics/names", params={"attempt": attempt})

    def speed_ups(self, job_id: str, *, attempt: int | None = None) -> SpeedUps:
        """Its speed-up over its baseline as it was stored over time, and what each value rests on."""
        return self._read(SpeedUps, "GET", f"/jobs/{job_id}/speed-ups", params={"attempt": attempt})

    def events(self, job_id: str, **query: Any) -> Events:
        """A page of detailed events; `query`: attempt, worker, kind, layer, step_from, step_to, limit,
        cursor."""
        return self._read(Events, "GET", f"/jobs/{job_id}/events", params=query)

    def record(self, job_id: str, steps: int = 20) -> Recording:
        """Have every event of the next steps of a running job kept."""
        return self._read(Recording, "POST", f"/jobs/{job_id}/record", json={"steps": steps})

    def trace(
        self,
        job_id: str,
        file: IO[bytes],
        *,
        on_progress: Callable[[int], None] = lambda _: None,
        **query: int | None,
    ) -> None:
        """Write the job's timeline to `file` as JSON for ui.perfetto.dev; `query`: attempt, step_from, step_to.
        `on_progress` hears how many bytes are written."""
        self._fetch(f"/jobs/{job_id}/trace", file, on_progress, query)

    def logs(
        self, job_id: str, party: str | None = None, *, attempt: int | None = None, offset: int = 0
    ) -> Logs:
        """A piece of one process's output in an attempt (1 is the first); without one, in the latest."""
        query = {"party": party, "attempt": attempt, "offset": offset}
        return self._read(Logs, "GET", f"/jobs/{job_id}/logs", params=query)

    def follow(
        self, job_id: str, party: str | None = None, *, attempt: int | None = None, poll_s: float = 0.5
    ) -> Iterator[str]:
        """One process's output from its beginning, piece by piece, until the job has ended: that of an attempt, or of
        the latest and of every one that follows it. Raises ServerUnreachableError where the server stays away."""
        number, offset = attempt, 0
        while True:
            job = self.patiently(lambda: self.job(job_id))  # before reading: what came until then is read
            latest = job.attempts[-1].number if job.attempts else None
            number = number or latest
            while True:
                read = partial(self.logs, job_id, party, attempt=number, offset=offset)
                piece = self.patiently(read)
                if piece.next_offset <= offset:
                    break
                offset = piece.next_offset
                yield piece.text
            if number == latest:
                if job.state in ENDED:
                    return
                time.sleep(poll_s)
            elif attempt is not None or number is None:
                return
            else:
                number, offset = number + 1, 0  # its log begins anew

    def links(self, job_id: str, **query: Any) -> Links:
        """What every link moved in bins of time, by direction and layer; `query`: attempt, link, direction, layer,
        from_ns, to_ns, bins."""
        return self._read(Links, "GET", f"/jobs/{job_id}/links", params=query)

    def held(self, job_id: str, **query: Any) -> JobMemory:
        """What a job's workers held in memory, measured; `query`: attempt."""
        return self._read(JobMemory, "GET", f"/jobs/{job_id}/memory", params=query)

    def staleness(self, job_id: str, **query: Any) -> Staleness:
        """How stale contributions were, by worker, layer and time, and who was ahead; `query`: attempt, windows."""
        return self._read(Staleness, "GET", f"/jobs/{job_id}/staleness", params=query)

    def stretch(self, job_id: str, from_ns: int, to_ns: int, **query: Any) -> LinkStretch:
        """A stretch of time: the bytes of every layer over every link, and the exposed waits that fall into it;
        `query`: attempt, link."""
        query |= {"from_ns": from_ns, "to_ns": to_ns}
        return self._read(LinkStretch, "GET", f"/jobs/{job_id}/links/stretch", params=query)

    def figure(self, job_id: str, name: str, **query: Any) -> go.Figure:
        """One figure, e.g. `timeline`, as the page shows it; `query`: attempt, width, theme, step, from_ns, to_ns."""
        return drawn(self._send("GET", f"/jobs/{job_id}/figures/{name}", params=query).text)

    def why(
        self, job_id: str, worker: int, step: int, layer: int, unit: int = -1, *, attempt: int | None = None
    ) -> Why:
        """Why a worker waited for a layer (an index in the model's description) in a step of an attempt."""
        query = {"worker": worker, "step": step, "layer": layer, "unit": unit, "attempt": attempt}
        return self._read(Why, "GET", f"/jobs/{job_id}/why", params=query)

    def same_step(self, job_ids: Sequence[str], **query: Any) -> Race:
        """The same step of several jobs on one axis; `query`: step, from_ns, to_ns since its start, width, theme."""
        return self._read(Race, "GET", "/race", params={"jobs": ",".join(job_ids), **query})

    def compare_figure(
        self, job_ids: Sequence[str], *, what: str = "loss", by: str = "step", **query: Any
    ) -> go.Figure:
        """A measurement (`loss`, `accuracy`, `throughput`) of several jobs by `step`, `samples`, `bytes` or `time`."""
        params = {"jobs": ",".join(job_ids), "what": what, "by": by, **query}
        return drawn(self._send("GET", "/compare", params=params).text)

    def same_step_figure(self, job_ids: Sequence[str], **query: Any) -> go.Figure:
        """Its figure; `query` as for `same_step`."""
        return drawn(json.dumps(self.same_step(job_ids, **query).figure))

    # --- catalogues ---

    def strategies(self) -> list[StrategyEntry]:
        """Every strategy."""
        return self._list(StrategyEntry, "/strategies")

    def models(self) -> list[SourceEntry]:
        """Every model of ours."""
        return self._list(SourceEntry, "/models")

    def datasets(self) -> list[SourceEntry]:
        """Every data set of ours."""
        return self._list(SourceEntry, "/datasets")

    def devices(self) -> list[Device]:
        """Every device, and which job holds it since when."""
        return self._list(Device, "/devices")

    def queue(self, *, limit: int | None = None) -> Queue:
        """The jobs that wait, in the order in which they may start, with the scheduler's own words."""
        return self._read(Queue, "GET", "/queue", params={"limit": limit})

    def lab(self) -> Lab:
        """Whether the server's machine can be several hosts, whose links keep a rate."""
        return self._read(Lab, "GET", "/lab")

    def health(self) -> Health:
        """How the service is."""
        return self._read(Health, "GET", "/health")
