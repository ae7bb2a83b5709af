"""A job's or a race's records as tables that other programs read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from backend.api.deps import Services, problems
from backend.schemas.exports import RaceTablesQuery, TablesQuery

router = APIRouter(tags=["exports"])
ZIP: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        "description": "An archive of Parquet files, one for each table",
    }
}


@router.get(
    "/jobs/{job_id}/tables", response_class=StreamingResponse, responses={**ZIP, **problems(404, 409, 422)}
)
def export_tables(
    services: Services, job_id: str, asked: Annotated[TablesQuery, Query()]
) -> StreamingResponse:
    """A job's records as Parquet files in a ZIP archive: `jobs`, `steps`, `metrics`, `layers`, `events` and `links`.
    Every column says in its metadata what it means and its unit."""
    return _archive(services.exports.of_job(job_id, asked), f"job-{job_id}")


@router.get(
    "/races/{race_id}/tables", response_class=StreamingResponse, responses={**ZIP, **problems(404, 409, 422)}
)
def export_race_tables(
    services: Services, race_id: str, asked: Annotated[RaceTablesQuery, Query()]
) -> StreamingResponse:
    """The same of all jobs that a race has made, each row with its job's id; the table `jobs` has each one's place in
    the race."""
    query = TablesQuery(**asked.model_dump())
    return _archive(services.exports.of_race(race_id, query), f"race-{race_id}")


def _archive(pieces: Iterator[bytes], name: str) -> StreamingResponse:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.zip"',
        "Content-Encoding": "identity",  # it is compressed
    }
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)
