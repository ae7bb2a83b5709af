"""What jobs of the same digest took before, as the database has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from backend.db.models import Attempt, Job
from backend.lifecycle import State
from backend.scheduler import durations
from backend.scheduler.durations import NEWEST

SOME = 500
"""Digests that are looked up at once."""
LATE_NS = 60 * 10**9
"""So much later than it ended may a job's end be seen: other servers have other clocks."""


class Learned:
    """It is looked at often, so what was found is kept until another job of that digest has ended."""

    def __init__(self) -> None:
        self._took: dict[str, list[int]] = {}
        self._seen_unix_ns: int | None = None
        """When the last job ended that has been seen."""

    def read(self, session: Session, digests: Collection[str | None], now_unix_ns: int) -> None:
        """Know these from now on, and forget others."""
        newest = session.scalar(select(func.max(Job.ended_unix_ns)))
        if self._seen_unix_ns is None:  # no job had ended when they were read
            self._took = {}
        elif newest is not None:
            since = Job.ended_unix_ns > self._seen_unix_ns - LATE_NS
            for changed in session.scalars(select(Job.digest).where(since).distinct()):
                self._took.pop(changed or "", None)
        # A clock that ran ahead must not hide what ends until then.
        self._seen_unix_ns = None if newest is None else min(newest, now_unix_ns)
        wanted = {digest for digest in digests if digest is not None}
        self._took = {digest: took for digest, took in self._took.items() if digest in wanted}
        new = sorted(wanted - self._took.keys())
        for first in range(0, len(new), SOME):
            some = new[first : first + SOME]
            self._took.update({digest: [] for digest in some})
            for row in session.execute(_newest(some)):
                self._took[row.digest].append(row.took)

    def took(self, digest: str | None) -> Sequence[int]:
        """How long its jobs ran that ended well in one go, in ns, the newest first."""
        return self._took.get(digest or "", ())


def expected_ns(session: Session, spec: Mapping[str, Any]) -> int | None:
    """How long a job of this specification, as plain data, is expected to run: see `durations.expected`."""
    digest = durations.digest(spec)
    took = [row.took for row in session.execute(_newest([digest]))]
    return durations.expected(spec.get("duration_s"), took)


def _newest(digests: Collection[str]) -> Select[Any]:
    took = Attempt.ended_unix_ns - Attempt.created_unix_ns
    number = func.row_number().over(partition_by=Job.digest, order_by=Job.ended_unix_ns.desc())
    well = (Job.state == State.SUCCEEDED, Attempt.state == State.SUCCEEDED, Attempt.number == 1)
    found = (
        select(Job.digest, took.label("took"), number.label("number"))
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Job.digest.in_(digests), *well)
        .subquery()
    )
    return select(found.c.digest, found.c.took).where(found.c.number <= NEWEST).order_by(found.c.number)
