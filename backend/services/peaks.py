"""Peaks: what a worker of a job holds in memory, predicted by a short process as descriptions are made, and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.schemas.memory import LargestBatchView, MemoryView
from backend.services.asker import Asker
from backend.services.describing import Task
from backend.services.plans import Planner
from backend.services.predicting import Predictor
from engine.errors import UserError
from engine.plan.budget import MemorySpec
from engine.plan.job import JobSpec
from engine.plan.largest import Found, Way, answered, cutting, most_samples, refused, way_of, ways
from engine.plan.peak import Peak
from engine.plan.plan import Plan
from engine.plan.serde import from_plain
from engine.plan.units_of_measure import parse_bytes
from engine.plan.worker_memory import declared_memory, request_for, worker_memory
from engine.strategies.fit_budget import wanted_of

PREDICT = Task(
    module="engine.liveness",
    doing="predicting what the model's steps hold",
    done="predicted",
    devices=False,
    too_long="Use a smaller model, or allow more with TRAINYARD_DESCRIPTION_SECONDS",
    holds="peak",
)
LARGEST = replace(
    PREDICT,
    doing="finding the largest batch",
    done="looked at for the largest batch",
    holds="largest",
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

    def largest(self, spec: JobSpec, memory: str, asker: Asker | None = None) -> LargestBatchView:
        """The largest batch of a worker of `memory`, whatever the job's own is, for each way to treat activations.
        Raises as `predict` does, and where not one sample fits."""
        given = parse_bytes(memory, "memory")
        planned = self._planner.plan(replace(spec, memory=MemorySpec(profile=spec.memory.profile)), asker)
        job, plan, described = planned.placed, planned.plan, planned.description
        request_for(job, plan, described)  # refuses what nobody predicts
        assert isinstance(plan, Plan)
        _, beside = declared_memory(job, plan, described)
        kinds = {layer.name: layer.kind for layer in described.layers}
        found, rates = list[Way](), ""
        for name, treated in (*ways(plan), *cutting(plan, kinds)):
            request = request_for(job, treated, described)
            request["room"] = {"room": given - beside, "most": most_samples(job)}
            request["wanted"] = wanted_of(job, plan, described, [layer.layer for layer in plan.layers])
            try:
                answer = self._predictor.predict(spec, request, LARGEST, _found, asker)
            except UserError as error:
                if not request["choices"]:
                    raise
                found.append(refused(name, error))
                continue
            found.append(way_of(name, answer, job, beside, given))
            rates = answer.rates
        return LargestBatchView(worker=0, largest=answered(job, given, beside, rates, found))


def _found(answer: dict[str, Any]) -> Found:
    return from_plain(Found, answer["largest"])


def _peak(answer: dict[str, Any]) -> Peak:
    return from_plain(Peak, answer["peak"])
