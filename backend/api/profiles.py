"""Profiles for rehearsals."""

from __future__ import annotations

from fastapi import APIRouter

from backend.api.body import SpecBody
from backend.api.deps import Asking, Services, problems
from backend.schemas.profiles import ProfileView

router = APIRouter(prefix="/profiles", tags=["plans"])


@router.post("", status_code=201, responses=problems(409, 415, 422, 503))
def measure_profile(services: Services, spec: SpecBody, asker: Asking) -> ProfileView:
    """Measure what each layer of the job's model takes here, for a rehearsal: the model trains for some steps, in
    passes as large as one worker's, on what `cluster.device` means here. The answer names the jobs that ran meanwhile.
    Takes seconds to minutes. 503 while another model is measured, a job runs alone (`cluster.alone`, as a race's do) or
    holds the GPU that is measured; jobs that run alone wait for its end,
    which comes at once where the client leaves."""
    return services.profiles.measure(spec, asker)
