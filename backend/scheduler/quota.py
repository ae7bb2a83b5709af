"""How many devices a project may hold at once.

A job that would take its project over its quota waits until jobs of its own project have ended. It is in nobody's way:
others start before it, since devices that come free are not what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import UserError

MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Quota:
    """The most that a project may hold at once, over all servers of the database. None: no limit."""

    cpu: int | None = None
    cuda: int | None = None
    rehearsal: int | None = None

    def __post_init__(self) -> None:
        for kind in ("cpu", "cuda", "rehearsal"):
            limit = self.of(kind)
            if limit is not None and not 0 <= limit <= MOST:
                rule = f"a project may hold from 0 to {MOST} devices of a kind at once"
                raise UserError(
                    f"quota.{kind}", limit, rule, "Give such a number, or leave it out for no limit"
                )

    def of(self, kind: str) -> int | None:
        """The limit of one kind of device."""
        limit: int | None = getattr(self, kind)
        return limit


def over(quota: Quota | None, kind: str, needed: int, held: int) -> int | None:
    """The limit that a job which needs so many devices would break, as its project holds `held`; None: none."""
    limit = None if quota is None else quota.of(kind)
    return limit if limit is not None and held + needed > limit else None


def check(project: str, quota: Quota | None, kind: str, needed: int) -> None:
    """Raises UserError where a job needs more than its project may ever hold."""
    if (limit := over(quota, kind, needed, 0)) is not None:
        rule = f"its project {project!r} may hold at most {limit} devices of the kind {kind} at once"
        raise UserError(
            "cluster.workers", needed, rule, "Use fewer workers, or ask an admin for a larger quota"
        )
