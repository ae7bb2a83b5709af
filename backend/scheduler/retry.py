"""Whether a job that failed is tried again, when, and what is said about it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from backend.db.models import Attempt, Job
from backend.lifecycle import CURABLE, Reason
from engine.errors import UserError
from engine.plan.retry import RetrySpec
from engine.plan.serde import from_plain


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The job gets another attempt."""

    at_unix_ns: int
    """Not before this."""
    text: str
    """Why it waits until then."""


def after(
    job: Job, attempt: Attempt, reason: str | None, message: str | None, ended_unix_ns: int
) -> Retry | None:
    """The retry that follows when `attempt` failed for `reason`; None: that failure is the job's end.

    Counted are the failures that a retry may cure: a launch that was broken off, as by a restart of the server, uses
    up none.
    """
    if reason not in CURABLE:
        return None
    try:
        spec = from_plain(RetrySpec, job.spec.get("retry", {}))
    except UserError:
        return None  # another version stored it: an attempt must end also where nobody can say what follows
    number = 1 + sum(other.reason in CURABLE for other in job.attempts if other.id != attempt.id)
    if number > spec.times:
        return None
    at = ended_unix_ns + round(spec.delay_s(number) * 1e9)
    when = datetime.fromtimestamp(at / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    why = (message or "it did not say why").rstrip(".")
    text = f"retry {number} of {spec.times} at {when}: attempt {attempt.number} failed: {why}. "
    return Retry(at_unix_ns=at, text=text + Reason.BACKING_OFF.remedy)
