"""What the figures of several jobs have in common: what they call the jobs, and what they say of rehearsals
and slowed workers."""

from __future__ import annotations

from collections.abc import Sequence

from backend.called import apart, called
from backend.figures.base import Labels
from backend.figures.facts import JobFacts


def names_of(jobs: Sequence[JobFacts]) -> list[str]:
    """Strategies where they tell the jobs apart, else the jobs' names, with short ids where several have one; a
    rehearsal says that it is one, and a job with slowed workers that it has some."""
    return [called(name, job) for name, job in zip(_short_names(jobs), jobs, strict=True)]


def labels_of(jobs: Sequence[JobFacts]) -> Labels:
    """What stands in a figure of these jobs."""
    return Labels(
        rehearsed=_label(jobs, [job.rehearsed for job in jobs]),
        slowed=_label(jobs, [job.slowed for job in jobs]),
    )


def _label(jobs: Sequence[JobFacts], labels: Sequence[str | None]) -> str | None:
    """One label where all jobs share it, else each job's own; None where none has one."""
    if len(set(labels)) == 1:
        return labels[0]
    named = zip(_short_names(jobs), labels, strict=True)
    return "; ".join(f"{name}, {label}" for name, label in named if label is not None)


def _short_names(jobs: Sequence[JobFacts]) -> list[str]:
    for names in ([job.strategy for job in jobs], [job.name for job in jobs]):
        if len(set(names)) == len(jobs):
            return names
    return apart([job.name for job in jobs], [job.id for job in jobs])
