"""A job beside its baseline: measured now, or read as it was stored.

Lists, summaries, series and figures show what `backend.services.speed_ups` stored; only another baseline than the job's
own, another attempt's, and what has just ended are measured for who asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backend.db.models import SpeedUpRow
from backend.figures.source import Source
from backend.figures.speed import Speed, conditions, measure
from engine.telemetry.comparison import SpeedUp, speed_up

GONE = "the baseline was deleted: this was measured before"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One measurement. Steps are inclusive; a window without steps ends before it begins."""

    result: SpeedUp
    baseline_id: str
    baseline_name: str
    baseline_workers: int
    baseline_attempt: int | None
    """Its number."""
    baseline_steps: tuple[int, int]
    baseline_samples_per_s: float | None
    steps: tuple[int, int]
    samples_per_s: float | None
    at_ns: int
    """When the last of `steps` ended, on the attempt's clock."""
    final: bool = False
    """Both jobs had ended."""
    baseline_gone: bool = False

    @property
    def measured(self) -> tuple[object, ...]:
        """All that a later measurement may find otherwise, but for the time."""
        return self.result, self.steps, self.baseline_steps, self.final, self.baseline_id, self.baseline_name


def compare(job: Source, baseline: Source, last: int | None = None, theirs: Speed | None = None) -> Compared:
    """Measured now, over the job's window that ends with step `last` (None: its newest). `theirs` is the baseline's
    speed where that is known."""
    ours, theirs = measure(job, last), theirs or measure(baseline)
    return Compared(
        result=speed_up(conditions(job, ours), conditions(baseline, theirs)),
        baseline_id=baseline.job.id,
        baseline_name=baseline.job.name,
        baseline_workers=baseline.job.workers,
        baseline_attempt=baseline.job.attempt_number,
        baseline_steps=(theirs.first, theirs.last),
        baseline_samples_per_s=theirs.samples_per_s,
        steps=(ours.first, ours.last),
        samples_per_s=ours.samples_per_s,
        at_ns=job.ended_at(ours.last),
        final=last is None and job.job.ended and baseline.job.ended,
    )


def stored(source: Source, newest: int | None = None) -> list[Compared]:
    """What was stored of the attempt that `source` reads, by step: all of it, or that of so many latest steps."""
    return [read(row, source) for row in source.speed_ups(newest)]


def shown(source: Source, baseline_id: str | None = None) -> Compared | None:
    """What is shown of the attempt that `source` reads, against its job's own baseline or another one: the newest that
    is stored, or measured now where that is not current. None without a baseline, and where there never was one.
    Raises LookupError for another one that does not exist."""
    own = source.job.baseline_id
    if baseline_id in (None, own):
        newest = source.speed_ups(1)
        if newest and (own is None or is_current(newest[0], source)):
            return read(newest[0], source)
        baseline_id = own
    return None if baseline_id is None else compare(source, source.other(baseline_id))


def is_current(row: SpeedUpRow, source: Source) -> bool:
    """While a job runs its newest row is a few seconds old at most; when it has ended, the last one may be under
    way."""
    job = source.job
    if row.baseline_id != job.baseline_id:
        return False
    there = source.other(row.baseline_id).job
    return not job.ended or (row.revision, row.baseline_revision) == (job.revision, there.revision)


def read(row: SpeedUpRow, source: Source) -> Compared:
    result = SpeedUp(
        value=row.value,
        interval=None if row.low is None or row.high is None else (row.low, row.high),
        scaling="weak" if row.scaling == "weak" else "strong",
        refused=tuple(row.refused),
        caveats=tuple(row.caveats),
    )
    gone = source.job.baseline_id is None
    if gone and result.value is not None:
        result = replace(result, caveats=(GONE, *result.caveats))
    return Compared(
        result=result,
        baseline_id=row.baseline_id,
        baseline_name=row.baseline_name,
        baseline_workers=row.baseline_workers,
        baseline_attempt=row.baseline_attempt,
        baseline_steps=(row.baseline_first_step, row.baseline_last_step),
        baseline_samples_per_s=row.baseline_samples_per_s,
        steps=(row.first_step, row.step),
        samples_per_s=row.samples_per_s,
        at_ns=row.at_ns,
        final=row.final,
        baseline_gone=gone,
    )
