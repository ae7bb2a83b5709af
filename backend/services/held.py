"""What a job's workers held in memory, as the API answers it."""

from __future__ import annotations

from collections.abc import Iterator

from backend.db import Database
from backend.figures.source import Source
from backend.schemas import memory as schema
from backend.services.jobs import find
from backend.services.views import attempt_of
from engine.telemetry.memory import COUNTERS, series


class HeldReader:
    """Reads any attempt of any job of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, job_id: str, attempt: int | None) -> schema.JobMemory:
        """Raises NotFound, and UserError for an attempt that there is not."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt_of(session, job, attempt)
            source = Source(session, job_id, attempt)
            return schema.JobMemory(
                rehearsed=source.job.rehearsed,
                slowed=source.job.slowed,
                measured=list(_measured(source)),
                layers=list(_layers(source)),
                revision=job.revision,
            )


def _measured(source: Source) -> Iterator[schema.MeasuredMemory]:
    for worker in range(source.job.workers):
        for measure, counted in COUNTERS.items():
            rows = source.metric(series(measure, source.job.party(worker)))
            if len(rows):
                value = rows["value"]
                yield schema.MeasuredMemory(
                    worker=worker,
                    measure=measure,
                    counted=counted,
                    first=int(value[0]),
                    last=int(value[-1]),
                    most=int(value.max()),
                )


def _layers(source: Source) -> Iterator[schema.LayerHeld]:
    for (worker, layer), held in sorted(source.held_by_layer().items()):
        yield schema.LayerHeld(
            worker=worker,
            layer=layer,
            name=source.job.layer(layer) if layer >= 0 else "",
            step=held.step,
            saved=held.saved,
            left=held.left,
            again=held.again,
            again_ms=held.again_ns / 1e6,
            waited_ms=held.waited_ns / 1e6,
        )
