"""What a job's workers recorded, as the API answers it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db import Database, models
from backend.executors.attempt_files import AttemptFiles, FilesOf
from backend.figures import rolled
from backend.figures.compared import Compared
from backend.figures.counted import counted_bytes_per_step
from backend.figures.course import begun_step, course
from backend.figures.processors import Processors, processors
from backend.figures.source import Source
from backend.lifecycle import State, said
from backend.schemas import telemetry as schema
from backend.schemas.lists import EventQuery
from backend.services import events, input_hint, logs, series, speed_ups, trace
from backend.services.errors import Conflict
from backend.services.jobs import find
from backend.services.progress import ACCURACY
from backend.services.stored import spec_of
from backend.services.times import moment
from backend.services.views import Views, attempt_of, latest_attempt, milliseconds
from engine.errors import UserError
from engine.telemetry import asked, definitions
from engine.telemetry.comparison import certainty

NEWEST_STEPS = 10
"""Steps of events that are answered where none are asked for."""
ALL_LEFT_OUT = schema.Events(
    rehearsed=None, slowed=None, worker=[], step=[], layer=[], unit=[], kind=[], track=[], peer=[], priority=[],
    queued_ns=[], start_ns=[], end_ns=[], bytes=[], clock=[], layers=[], layer_names=[], buckets={}, parties=[],
    kinds=list(events.KINDS), newest_step=None, truncated=False, next_cursor=None,
)  # fmt: skip


class Telemetry:
    """Reads any attempt of any job: the latest, unless a number is given."""

    def __init__(self, database: Database, views: Views, files: FilesOf) -> None:
        self._database = database
        self._views = views
        self._files = files
        self._asking = threading.Lock()

    def metrics(
        self, job_id: str, name: str | None, number: int | None, step_from: int | None, step_to: int | None
    ) -> schema.Metrics:
        """Series by name, of all steps or a range. Raises NotFound, UserError for an attempt that there is not, and
        UnknownNameError for a series."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = attempt_of(session, job, number)
            source = Source(session, job_id, number)
            found: dict[str, list[schema.Point]] = {}
            if attempt is not None:
                found = series.read(session, source, name, step_from or 0, step_to)
            return schema.Metrics(
                rehearsed=source.job.rehearsed,
                slowed=source.job.slowed,
                series=found,
                revision=job.revision,
            )

    def metric_names(self, job_id: str, number: int | None) -> schema.MetricNames:
        """The series that `metrics` has. Raises NotFound, and UserError for an attempt that there is not."""
        with self._database.read() as session:
            attempt_of(session, find(session, job_id), number)
            found = series.names(session, Source(session, job_id, number))
        return schema.MetricNames(
            items=[schema.MetricName(name=name, last_step=step) for name, step in found.items()]
        )

    def speed_ups(self, job_id: str, number: int | None) -> schema.SpeedUps:
        """What was stored of an attempt's speed-up. Raises NotFound, and UserError for an attempt that there is
        not."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt_of(session, job, number)
            source = Source(session, job_id, number)
            items = [_sample(row) for row in source.speed_ups()]
        return schema.SpeedUps(
            rehearsed=source.job.rehearsed, slowed=source.job.slowed, items=items, revision=job.revision
        )

    def events(self, job_id: str, query: EventQuery) -> schema.Events:
        """Detailed events; without a range of steps, those of the newest ones. Raises NotFound, and UserError for an
        attempt, a kind or a cursor that is none."""
        kinds = events.kinds(query.kind)
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = attempt_of(session, job, query.attempt)
            facts = Source(session, job_id, query.attempt).job
            if attempt is None:
                return ALL_LEFT_OUT.model_copy(update={"rehearsed": facts.rehearsed, "slowed": facts.slowed})
            first, last = _steps(session, attempt.id, query.step_from, query.step_to)
            return events.read(
                session,
                attempt.id,
                events.Wanted(
                    step_from=first, step_to=last, party=query.worker, layer=query.layer, kinds=kinds
                ),
                limit=query.limit,
                cursor=query.cursor,
                job=facts,
                newest_step=rolled.newest_detailed_step(session, attempt.id, facts.workers),
            )

    def record(self, job_id: str, steps: int) -> schema.Recording:
        """Have every event of the next `steps` steps kept. Raises NotFound, and Conflict for a job that does not
        run."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = latest_attempt(session, job)
            if attempt is None or job.state not in {State.STARTING, State.RUNNING}:
                raise Conflict(f"job {job_id} is {said(job.state)}: only a job that runs can be recorded")
            newest = session.scalar(
                select(func.max(models.StepRow.step)).where(models.StepRow.attempt_id == attempt.id)
            )
        first = 0 if newest is None else newest + 1
        try:
            with self._asking:
                _ask(self._files(attempt.directory), (first, first + steps - 1))
        except (OSError, ValueError) as error:  # a full disk; or what a user's code put in its place
            reason = getattr(error, "strerror", None) or error
            raise Conflict(
                f"job {job_id}: {attempt.directory} cannot be written ({reason}). Nothing more is recorded"
            ) from None
        return schema.Recording(first_step=first, last_step=first + steps - 1)

    def trace(
        self,
        job_id: str,
        number: int | None,
        step_from: int | None,
        step_to: int | None,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> Iterator[str]:
        """The detailed events of these steps, or of those that touch a stretch of time on the attempt's clock
        (without either, of the newest ones) for Perfetto, piece by piece.
        Raises NotFound, and UserError for an attempt that there is not or half a stretch, before the first piece."""
        if (from_ns is None) != (to_ns is None):
            raise UserError("from_ns", from_ns, "needs to_ns, and to_ns needs it", "Give both or neither")
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = attempt_of(session, job, number)
            source = Source(session, job_id, number)
            if from_ns is not None and to_ns is not None:
                first, last = source.steps_between(from_ns, to_ns)
            else:
                first, last = _steps(session, attempt.id, step_from, step_to) if attempt else (0, -1)
            facts = source.job
            # Read while the session is there.
            layers, titles, buckets = facts.layers, facts.titles, facts.buckets
        about = {
            "job": job.id,
            "name": job.name,
            "steps": f"{first} to {last}",
            "rehearsed": facts.rehearsed,
            "slowed": facts.slowed,
        }
        written = trace.Trace(layers, titles, facts.parties, about, buckets)

        def pages() -> Iterator[np.ndarray]:
            after: events.Key | None = None
            while attempt is not None:
                # A snapshot for each page: a slow reader holds up no checkpoint of the database.
                with self._database.read() as session:
                    rows, after = events.page(
                        session,
                        attempt.id,
                        events.Wanted(step_from=first, step_to=last),
                        limit=trace.EVENTS_AT_ONCE,
                        after=after,
                    )
                yield rows
                if after is None:
                    return

        return written.pieces(pages())

    def logs(
        self, job_id: str, *, party: str | None, number: int | None, offset: int, limit: int
    ) -> schema.Logs:
        """A piece of a party's output in the attempt with that number, else the latest. Raises NotFound, UserError for
        an attempt that there is not, and UnknownNameError listing the parties."""
        with self._database.read() as session:
            attempt = attempt_of(session, find(session, job_id), number)
        if attempt is None:
            return logs.none([])
        files = self._files(attempt.directory)
        return logs.read(files, attempt.parties, party=party, offset=offset, limit=limit)

    def log_file(self, job_id: str, *, party: str | None, number: int | None) -> tuple[str, Iterator[bytes]]:
        """What its file is called, and a party's whole output. Raises as `logs` does, and Conflict where there is none
        yet."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = attempt_of(session, job, number)
            name = job.name
        if attempt is None:
            raise Conflict("the job has not been started: it has no log")
        chosen, pieces = logs.whole(self._files(attempt.directory), attempt.parties, party)
        return f"{name} {chosen} attempt {attempt.number}", pieces

    def summary(self, job_id: str, baseline_id: str | None, number: int | None) -> schema.Summary:
        """An attempt's figures, compared with the job's own baseline or the one given. Raises NotFound, and UserError
        for an attempt that there is not."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt = attempt_of(session, job, number)
            if baseline_id is not None:
                find(session, baseline_id)
            spec, progress = spec_of(job), self._views.of(session, job, attempt)
            compared = speed_ups.of(session, job, baseline_id, attempt)
            target = spec.training.target_accuracy
            source = Source(session, job_id, number)
            ours, theirs = _time_to(source, target), None
            machine = processors(source)
            declared = self._views.plan(job).wire_bytes_per_step
            counted = counted_bytes_per_step(source, spec.scale) if declared is None else None
            if compared is not None and not compared.result.refused and not compared.baseline_gone:
                baseline = find(session, compared.baseline_id)
                theirs = _time_to(source.other(baseline.id), target)
            return schema.Summary(
                rehearsed=spec.rehearsed,
                slowed=spec.slowed,
                steps=progress.done,
                window_steps=progress.window,
                iteration_ms=milliseconds(progress.iteration_ns),
                compute_ms=milliseconds(progress.compute_ns),
                exposed_ms=milliseconds(progress.exposed_ns),
                compute_worker=progress.compute_rank if progress.apart else None,
                exposed_worker=progress.exposed_rank if progress.apart else None,
                input_ms=milliseconds(waits.ns if (waits := progress.longest_input) else None),
                inputs=[
                    schema.InputWait(worker=wait.rank, ms=wait.ns / 1e6, share=wait.share)
                    for wait in progress.inputs
                ],
                input_hint=input_hint.of(session, job, spec, progress, machine, source.job.device),
                samples_per_s=progress.samples_per_s,
                processors=shown_processors(machine),
                speed_up=_speed_up(compared) if compared else None,
                convergence_speed_up=definitions.convergence_speed_up(ours, theirs),
                wire_bytes_per_step=declared,
                counted_bytes_per_step=counted,
                rate_bps=spec.network.rate_bps,
                loss=progress.loss,
                test_accuracy=progress.test_accuracy,
                accuracy_of=progress.accuracy_of,
                target_accuracy=target,
                time_to_target_s=None if ours is None else ours / 1e9,
                duration_s=_duration(session, attempt),
                revision=job.revision,
            )


def _ask(files: AttemptFiles, steps: asked.Range) -> None:
    """Raises OSError, or ValueError for what a user's code wrote into the file."""
    try:
        held = files.read(asked.FILE, 0, asked.MOST).content
    except FileNotFoundError:
        held = None
    files.write(asked.FILE, asked.added(held, steps))


def shown_processors(found: Processors | None) -> schema.Processors | None:
    """As the API shows it."""
    return None if found is None else schema.Processors(busy=found.busy, own=found.own)


def _steps(session: Session, attempt_id: int, first: int | None, last: int | None) -> tuple[int, int]:
    """The range asked for; where an end is left out, the newest steps that have events."""
    if last is None:
        newest = select(func.max(models.Batch.last_step)).filter_by(attempt_id=attempt_id)
        last = session.scalar(newest) or 0
    return max(0, last - NEWEST_STEPS + 1) if first is None else first, last


def _speed_up(found: Compared) -> schema.SpeedUp:
    value, interval = found.result.value, found.result.interval
    low, high = interval or (None, None)
    return schema.SpeedUp(
        baseline_id=None if found.baseline_gone else found.baseline_id,
        baseline_name=found.baseline_name,
        value=value,
        low=low,
        high=high,
        certainty=None if value is None or interval is None else certainty(value, interval),
        kind=found.result.scaling,
        comparable=found.result.comparable,
        why_not=found.result.caveat,
    )


def _sample(row: models.SpeedUpRow) -> schema.SpeedUpSample:
    return schema.SpeedUpSample(
        step=row.step,
        first_step=row.first_step,
        time_ns=row.at_ns,
        measured_at=moment(row.measured_unix_ns),
        baseline_id=row.baseline_id,
        baseline_name=row.baseline_name,
        baseline_attempt=row.baseline_attempt,
        baseline_first_step=row.baseline_first_step,
        baseline_last_step=row.baseline_last_step,
        samples_per_s=row.samples_per_s,
        baseline_samples_per_s=row.baseline_samples_per_s,
        value=row.value,
        low=row.low,
        high=row.high,
        kind="weak" if row.scaling == "weak" else "strong",
        refused=row.refused,
        caveats=row.caveats,
        final=row.final,
    )


def _span(session: Session, attempt: models.Attempt | None) -> tuple[int | None, int | None]:
    """Start of the first step and end of the last one, in ns on the attempt's clock."""
    if attempt is None:
        return None, None
    ends = select(func.min(models.StepRow.start_ns), func.max(models.StepRow.end_ns))
    first, last = session.execute(ends.where(models.StepRow.attempt_id == attempt.id)).one()
    return first, last


def _duration(session: Session, attempt: models.Attempt | None) -> float | None:
    first, last = _span(session, attempt)
    return None if first is None or last is None else (last - first) / 1e9


def _time_to(source: Source, target: float | None) -> int | None:
    """How long the job had trained when its test accuracy first reached `target`, in ns since its first forward, over
    all attempts whose steps were kept. None where it began with another job's checkpoint: what that took is not its
    own."""
    if target is None:
        return None
    stretches = course(source)
    if begun_step(stretches):
        return None
    for stretch in stretches:
        rows = stretch.source.metric(ACCURACY)
        rows = rows[stretch.has_measured(rows) & np.isfinite(rows["value"])]
        seconds = stretch.seconds_until(rows["at"].astype(np.int64))
        reached = definitions.time_to_target_ns(seconds * 1e9, rows["value"], target, goal="max")
        if reached is not None:
            return reached
    return None
