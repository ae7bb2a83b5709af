"""A job's checkpoints, and its model for other programs."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from backend.api.deps import Asking, Services, problems
from backend.schemas.checkpoints import Checkpoints, ExportQuery

router = APIRouter(prefix="/jobs/{job_id}", tags=["checkpoints"])
STEP = "Trainyard-Step"
"""The header that says of which step an export is."""
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "headers": {STEP: {"description": "After so many steps", "schema": {"type": "integer"}}},
        "description": "The file",
    }
}


@router.get("/checkpoints", responses=problems(404, 503))
def list_checkpoints(services: Services, job_id: str) -> Checkpoints:
    """Of which steps a job's model can be exported: its checkpoints, and its end."""
    return services.checkpoints.read(job_id)


@router.get("/export", response_class=StreamingResponse, responses={**FILE, **problems(404, 409, 422, 503)})
def export_model(
    services: Services, job_id: str, asked: Annotated[ExportQuery, Query()], asker: Asking
) -> StreamingResponse:
    """The job's model after one of its checkpoints' steps or as it has ended, as a safetensors file with the names of
    its state_dict; or the state of its optimizer. The model's file says itself which job, attempt and step it is of."""
    found = services.checkpoints.export(job_id, asked, asker)
    stem, _, suffix = found.file.rpartition(".")
    plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    headers = {
        "Content-Disposition": f'attachment; filename="{plain}.{suffix}"',
        "Content-Encoding": "identity",  # what is trained hardly becomes smaller
        STEP: str(found.step),
    }
    return StreamingResponse(found.pieces, media_type="application/octet-stream", headers=headers)
