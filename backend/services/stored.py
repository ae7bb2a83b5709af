"""What a job's row holds, as the engine's own objects."""

from __future__ import annotations

from backend.db.models import Job
from backend.services.plans import Planned
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.plan import Peer, Plan
from engine.plan.serde import from_plain


def spec_of(job: Job) -> JobSpec:
    """The specification as it was validated."""
    return from_plain(JobSpec, job.spec)


def planned_of(job: Job) -> Planned:
    """Specification, description and resolved plan. A plan with a `runner` is a peer."""
    assert job.plan is not None, f"job {job.id} has no plan"
    assert job.description is not None, f"job {job.id} has no description"
    kind: type[Plan] | type[Peer] = Peer if "runner" in job.plan else Plan
    return Planned(
        spec=spec_of(job),
        description=ModelDescription.from_dict(job.description),
        plan=from_plain(kind, job.plan),
    )


def source_name(source: dict[str, object]) -> str:
    """What people call a model or a data set: its name, or its entry point."""
    return str(source.get("name") or source.get("entrypoint"))
