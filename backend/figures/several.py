"""What the figures of several jobs have in common: what they call the jobs, and what they say of rehearsals."""

from __future__ import annotations

from collections.abc import Sequence

from backend.figures.facts import JobFacts


def names_of(jobs: Sequence[JobFacts]) -> list[str]:
    """Strategies where they tell the jobs apart, else the jobs' names, else those with the end of their
    ids; a rehearsal says that it is one."""
    return [
        f"{name} (rehearsed)" if job.rehearsed else name
        for name, job in zip(_short_names(jobs), jobs, strict=True)
    ]


def rehearsals_of(jobs: Sequence[JobFacts]) -> str | None:
    """What stands in a figure of these jobs: one label where all share it, else each rehearsal's own; None where every
    job trains."""
    labels = [job.rehearsed for job in jobs]
    if len(set(labels)) == 1:
        return labels[0]
    named = zip(_short_names(jobs), labels, strict=True)
    return "; ".join(f"{name}, {label}" for name, label in named if label is not None)


def _short_names(jobs: Sequence[JobFacts]) -> list[str]:
    for names in ([job.strategy for job in jobs], [job.name for job in jobs]):
        if len(set(names)) == len(jobs):
            return names
    return [f"{job.name} ({job.id[-6:]})" for job in jobs]
