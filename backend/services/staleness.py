"""How stale contributions were and who was ahead of whom, as the API answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from backend.db import Database
from backend.figures.drifted import Histogram, classes, together
from backend.figures.source import Source
from backend.schemas import staleness as schema
from backend.services.jobs import find
from backend.services.views import attempt_of
from engine.telemetry.definitions import steps_ahead

MOST_VALUES = 200_000
"""Of all histograms, and of all workers' windows, in one answer."""
NOTHING = Histogram(staleness=np.zeros(0, np.int32), count=np.zeros(0, np.int64))


class StalenessReader:
    """Reads any attempt of any job of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, job_id: str, asked: schema.StalenessQuery) -> schema.Staleness:
        """Raises NotFound, and UserError for an attempt that there is not."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt_of(session, job, asked.attempt)
            source = Source(session, job_id, asked.attempt)
            facts = source.job
            workers, layers = source.stale_by_worker(), source.stale_by_layer()
            course = source.course(max(1, min(asked.windows, MOST_VALUES // facts.workers)))
            ended = source.ended_steps()
            revision, drifts = job.revision, source.drifts()
        exact = sum(len(each.count) for each in (*workers.values(), *layers.values())) <= MOST_VALUES
        steps, now = course.steps_by_window, steps_ahead(ended)
        ahead = steps_ahead(steps)
        known = len(course.edges_ns) > 1
        return schema.Staleness(
            rehearsed=facts.rehearsed,
            slowed=facts.slowed,
            drifts=drifts,
            everything=schema.StaleCounts(**_counts(together(list(workers.values())), exact)),
            workers=[
                schema.StaleWorker(
                    **_counts(workers.get(worker, NOTHING), exact),
                    worker=worker,
                    name=facts.party(worker),
                    steps=int(ended[worker]),
                    ahead=int(now[worker]),
                    most_ahead=int(course.most_ahead[worker]),
                    mean_over_time=[
                        None if math.isnan(mean) else mean for mean in course.mean[worker].tolist()
                    ],
                    steps_over_time=steps[worker].tolist(),
                    ahead_over_time=ahead[worker].tolist(),
                )
                for worker in range(facts.workers)
            ],
            layers=_layers(layers, facts.layer, exact),
            start_ns=int(course.edges_ns[0]),
            window_ns=int(course.edges_ns[1] - course.edges_ns[0]) if known else 0,
            most_over_time=[None if most < 0 else most for most in course.most.tolist()],
            revision=revision,
        )


def _layers(layers: Mapping[int, Histogram], name: Any, exact: bool) -> list[schema.StaleLayer]:
    return [
        schema.StaleLayer(**_counts(histogram, exact), index=layer, layer=name(layer))
        for layer, histogram in layers.items()
    ]


def _counts(histogram: Histogram, exact: bool) -> dict[str, Any]:
    """Of a histogram; in classes where not `exact`."""
    staleness = to = histogram.staleness.tolist()
    counts = histogram.count.tolist()
    if not exact and histogram.most is not None:
        groups = classes(histogram.most)
        found = zip(groups, histogram.within(groups).tolist(), strict=True)
        kept = [(low, high, count) for (low, high), count in found if count]
        staleness, to, counts = (list(column) for column in zip(*kept, strict=True))
    return {
        "contributions": histogram.contributions,
        "mean": histogram.mean,
        "most": histogram.most,
        "staleness": staleness,
        "to": to,
        "counts": counts,
    }
