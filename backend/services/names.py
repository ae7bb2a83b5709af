"""Names that people give, as they are submitted. What is stored already is read as it is: older servers took more."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from backend.races.spec import MemberSpec, RaceSpec, labels
from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.serde import legible

_SHOWN = 100
"""Characters of a name that is refused."""


def check_job(spec: JobSpec, field: str = "name") -> None:
    """Raises UserError for a name that a list would not show as one line of what was written."""
    _check(field, spec.name)


def check_race(spec: RaceSpec) -> None:
    """The same of a race's names, and for two members that nobody could tell apart."""
    if spec.name is not None:
        _check("name", spec.name)
    check_job(spec.job, "job.name")
    check_members(spec.members, 0)


def check_members(members: Sequence[MemberSpec], begin: int) -> None:
    """The same of the members from the place `begin` on, which errors count from: others are stored already."""
    names = labels(tuple(members))
    for place, name in enumerate(names[begin:]):
        _check(f"members.{place}.{'options' if members[begin + place].name is None else 'name'}", name)
    seen = [_alike(name) for name in names]
    for place, one in enumerate(seen[begin:], begin):
        if one in seen[:place]:
            rule = f"differs from {names[seen.index(one)]!r} in spaces only, or not at all for who reads it"
            raise UserError(f"members.{place - begin}", names[place], rule, "Give one of them another name")


def _check(field: str, name: str) -> None:
    if not name.isprintable():
        rule = "a name is one line, and all its characters are visible ones, or spaces"
        raise UserError(field, legible(name[:_SHOWN]), rule, "Leave line feeds and invisible characters out")


def _alike(name: str) -> str:
    """Names that look the same have this in common."""
    return " ".join(unicodedata.normalize("NFC", name).split())
