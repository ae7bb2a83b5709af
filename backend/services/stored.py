"""What a job's or a race's row holds, as the program's own objects.

Another version of this program may have stored it, with fields or values that this one does not take: one such row
must break nothing but what asks for it, so whoever reads many rows expects the UserError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.db.models import Job, Race
from backend.races.spec import RaceSpec
from backend.services.plans import Planned
from engine.errors import UserError
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Plan, Wrapper
from engine.plan.serde import from_plain


def spec_of(job: Job) -> JobSpec:
    """The specification as it was validated. Raises UserError where this version cannot read it."""
    with _read("spec"):
        return from_plain(JobSpec, job.spec)


def planned_of(job: Job) -> Planned:
    """Specification, description and resolved plan. A plan with a `runner` is a peer. Raises as `spec_of` does."""
    assert job.plan is not None, f"job {job.id} has no plan"
    assert job.description is not None, f"job {job.id} has no description"
    kind: type[Plan] | type[Wrapper] = Wrapper if "runner" in job.plan else Plan
    with _read("description"):
        description = ModelDescription.from_dict(job.description)
    with _read("plan"):
        plan = from_plain(kind, job.plan)
    return Planned(spec=spec_of(job), description=description, plan=plan)


def race_of(race: Race) -> RaceSpec:
    """A race as it was validated. Raises as `spec_of` does."""
    with _read("spec", "race"):
        return from_plain(RaceSpec, race.spec)


def source_name(source: dict[str, object]) -> str:
    """What people call a model or a data set: its name, or its entry point."""
    return str(source.get("name") or source.get("entrypoint") or "?")


@contextmanager
def _read(part: str, what: str = "job") -> Iterator[None]:
    try:
        yield
    except UserError as error:
        rule = f"{error.rule}: this version cannot read the {what} that another one stored"
        remedy = f"{error.remedy.rstrip('.')}. Read it with the version that stored it, or delete it"
        raise UserError(f"{part}.{error.field}".rstrip("."), error.value, rule, remedy) from None
