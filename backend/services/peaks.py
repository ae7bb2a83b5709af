"""Peaks: what a worker of a job holds in memory, predicted by a short process as descriptions are made, and kept."""

from __future__ import annotations

from typing import Any

from backend.schemas.memory import MemoryView
from backend.services.asker import Asker
from backend.services.describing import Task
from backend.services.plans import Planner
from backend.services.predicting import Predictor
from engine.plan.job import JobSpec
from engine.plan.peak import Peak
from engine.plan.plan import Plan
from engine.plan.serde import from_plain
from engine.plan.worker_memory import request_for, worker_memory

PREDICT = Task(
    module="engine.liveness",
    doing="predicting what the model's steps hold",
    done="predicted",
    devices=False,
    too_long="Use a smaller model, or allow more with TRAINYARD_DESCRIPTION_SECONDS",
    holds="peak",
)


class Peaks:
    """Predicts; safe to call from many threads."""

    def __init__(self, planner: Planner, predictor: Predictor) -> None:
        self._planner = planner
        self._predictor = predictor

    def predict(self, spec: JobSpec, asker: Asker | None = None) -> MemoryView:
        """Of worker 0. Raises UserError where a plan is refused, and for what nobody predicts, Busy where too many ask,
        and Left where the asker is gone."""
        planned = self._planner.plan(spec, asker)
        request = request_for(planned.placed, planned.plan, planned.description)
        assert isinstance(planned.plan, Plan)
        peak = self._predictor.predict(spec, request, PREDICT, _peak, asker)
        return MemoryView(worker=0, memory=worker_memory(spec, planned.plan, planned.description, peak))


def _peak(answer: dict[str, Any]) -> Peak:
    return from_plain(Peak, answer["peak"])
