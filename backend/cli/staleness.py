"""`trainyard staleness`: how late the contributions of a job's workers came, and who is ahead."""

from __future__ import annotations

from collections.abc import Iterator

from backend.cli import ids
from backend.cli.errors import reported
from backend.cli.jobs import AsJson, Attempt, Id, Url
from backend.cli.text import columns, out, out_json
from backend.client import Client
from backend.rounding import number
from backend.schemas.staleness import StaleCounts, Staleness

BAR = 24
"""Characters of the longest bar."""
MOST_BARS = 12
"""Values of staleness that have a line; more are joined."""


def staleness(
    job_id: Id,
    url: Url = None,
    attempt: Attempt = None,
    as_json: AsJson = False,
) -> None:
    """Show how stale contributions were, of each worker and to each layer, and who is how many steps ahead."""
    with reported(), Client(url) as client:
        query = {} if attempt is None else {"attempt": attempt}
        found = client.staleness(ids.job_id(client, job_id), **query)
    if as_json:
        out_json(found)
        return
    for label in filter(None, (found.rehearsed, found.slowed)):
        out(label)
    if not found.everything.contributions:
        out(
            "No contribution was applied, or the job ran before staleness was recorded."
            if found.drifts
            else "Workers of this job wait for one another in every step: no contribution is stale."
        )
        return
    out(headline(found))
    out()
    head = ("worker", "steps", "ahead", "most ahead", "contributions", "mean", "most")
    out(
        columns(
            head,
            (
                (each.name, f"{each.steps:,}", f"{each.ahead:,}", f"{each.most_ahead:,}", *_counts(each))
                for each in found.workers
            ),
        )
    )
    out()
    out(columns(("layer", *head[4:]), ((each.layer, *_counts(each)) for each in found.layers)))
    out()
    out(columns(("staleness", "contributions", ""), _bars(found.everything)))


def headline(found: Staleness) -> str:
    """All contributions in one line."""
    all_of = found.everything
    return (
        f"{all_of.contributions:,} contributions, {number(all_of.mean, '{:.2f}')} updates stale on average,"
        f" at most {all_of.most:,}"
    )


def _counts(of: StaleCounts) -> tuple[str, ...]:
    return f"{of.contributions:,}", number(of.mean, "{:.2f}"), number(of.most, "{:,}")


def _bars(of: StaleCounts) -> Iterator[tuple[str, ...]]:
    """A line for each value that occurred; neighbouring ones in one, where they are many."""
    every = -(-len(of.counts) // MOST_BARS)
    joined = [
        (of.staleness[at], of.to[at : at + every][-1], sum(of.counts[at : at + every]))
        for at in range(0, len(of.counts), every)
    ]
    most = max(count for *_, count in joined)
    for low, high, count in joined:
        name = str(low) if low == high else f"{low} to {high}"
        yield name, f"{count:,}", "#" * -(-BAR * count // most)
