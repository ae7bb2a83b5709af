"""Peaks: what a worker of a job holds in memory, predicted by a short process as descriptions are made, and kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from backend.schemas.memory import LargestBatchView, MemoryView
from backend.services.asker import Asker
from backend.services.budgets import LOOKS
from backend.services.describing import Task
from backend.services.plans import Planner
from backend.services.predicting import Predictor
from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.plan.budget import MemorySpec
from engine.plan.description import ModelDescription
from engine.plan.job import JobSpec
from engine.plan.largest import (
    BUDGET,
    Found,
    LargestCurve,
    Point,
    Way,
    answered,
    cutting,
    line_of,
    looked_at,
    most_samples,
    refused,
    way_of,
    ways,
)
from engine.plan.peak import Peak
from engine.plan.plan import Plan, Wrapper
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
CURVE = replace(LARGEST, holds="points")
MIXTURE_LOOKS = 2 * LOOKS
"""What a budget chooses may take so many times as long as one way."""


class Peaks:
    """Predicts; safe to call from many threads."""

    def __init__(self, planner: Planner, predictor: Predictor) -> None:
        self._planner = planner
        self._predictor = predictor

    def predict(self, spec: JobSpec, asker: Asker | None = None) -> MemoryView:
        """Of worker 0, or of its replica's fullest stage. Raises UserError where a plan is refused, and for what nobody
        predicts, Busy where too many ask, and Left where the asker is gone."""
        planned = self._planner.plan(spec, asker)
        request = request_for(planned.placed, planned.plan, planned.description)
        peak = self._predictor.predict(spec, request, PREDICT, _peak, asker)
        memory = worker_memory(spec, planned.plan, planned.description, peak)
        return MemoryView(worker=peak.stage, memory=memory)

    def largest(self, spec: JobSpec, memory: str, asker: Asker | None = None) -> LargestBatchView:
        """The largest batch of a worker of `memory`, whatever the job's own is, for each way to treat activations.
        Raises as `predict` does, and where not one sample fits."""
        question = self._question(spec, memory, asker)
        found = [each.way for each in self._answers(question, asker)]
        return LargestBatchView(
            worker=0,
            largest=answered(question.job, question.given, question.beside, question.rates, found),
        )

    def curve(self, spec: JobSpec, memory: str, asker: Asker | None = None) -> LargestCurve:
        """The same over all memories up to this one. Raises as `largest` does."""
        question = self._question(spec, memory, asker)
        answers = self._answers(question, asker)
        answered(question.job, question.given, question.beside, "", [each.way for each in answers])
        lines = []
        for each in answers:
            if each.way.samples:
                request = {**each.request, "curve": looked_at(each.way.samples)}
                points = self._predictor.predict(spec, request, CURVE, _points, asker)
                lines.append(line_of(each.way, points, question.beside))
        return LargestCurve(memory=question.given, rates=question.rates, lines=lines)

    def _question(self, spec: JobSpec, memory: str, asker: Asker | None) -> _Question:
        given = parse_bytes(memory, "memory")
        planned = self._planner.plan(replace(spec, memory=MemorySpec(profile=spec.memory.profile)), asker)
        job, plan, described = planned.placed, planned.plan, planned.description
        request_for(job, plan, described)  # refuses what nobody predicts
        if isinstance(plan, Wrapper) or plan.pipeline is not None:
            raise UserError(
                "strategy.name",
                plan.strategy,
                "the largest batch is found for one replica of the whole model that a plan of ours trains",
                "Use a strategy whose plan replicates all layers",
            )
        _, beside = declared_memory(job, plan, described)
        return _Question(spec=spec, job=job, plan=plan, described=described, given=given, beside=beside)

    def _answers(self, question: _Question, asker: Asker | None) -> list[_Answer]:
        """Of each way, a budget's mixture last. Raises UserError where the job cannot train as it is."""
        plan, described = question.plan, question.described
        kinds = {layer.name: layer.kind for layer in described.layers}
        found = []
        for name, treated in (*ways(plan), *cutting(plan, kinds)):
            request = question.request(treated)
            found.append(self._answer(name, question, request, 1, asker))
        best = max(each.way.samples for each in found)
        kept = next(each.request for each in found if not each.request["choices"])
        request = {**kept, "room": {**kept["room"], "first": max(1, best)}, "mixture": True}
        found.append(self._answer(BUDGET, question, request, MIXTURE_LOOKS, asker))
        return found

    def _answer(
        self, name: str, question: _Question, request: dict[str, Any], times: int, asker: Asker | None
    ) -> _Answer:
        try:
            answer = self._predictor.predict(question.spec, request, LARGEST, _found, asker, times=times)
        except UserError as error:
            if not request["choices"] and name != BUDGET:
                raise
            return _Answer(refused(name, error), request)
        question.rates = answer.rates
        way = way_of(name, answer, question.job, question.beside, question.given)
        if answer.layers:  # each of them by name
            chosen = {
                layer.layer: {"activations": layer.activations, "options": layer.options}
                for layer in answer.layers
                if "as-is" not in ACTIVATIONS[layer.activations].traits
            }
            request = {**request, "choices": chosen}
        return _Answer(way, request)


@dataclass(kw_only=True)
class _Question:
    """What is asked."""

    spec: JobSpec
    job: JobSpec
    """As it was planned."""
    plan: Plan
    described: ModelDescription
    given: int
    """Bytes of a worker."""
    beside: int
    """Of these, what it holds beside the model's step."""
    rates: str = ""
    """What the times are made from, once somebody has answered."""

    def request(self, plan: Plan) -> dict[str, Any]:
        """Of one way."""
        job, described = self.job, self.described
        layers = [layer.layer for layer in plan.layers]
        return {
            **request_for(job, plan, described),
            "room": {"room": self.given - self.beside, "most": most_samples(job)},
            "wanted": wanted_of(job, plan, described, layers),
        }


class _Answer(NamedTuple):
    """Of one way."""

    way: Way
    request: dict[str, Any]
    """What was asked, with the choices that were answered."""


def _found(answer: dict[str, Any]) -> Found:
    return from_plain(Found, answer["largest"])


def _points(answer: dict[str, Any]) -> list[Point]:
    return [from_plain(Point, point) for point in answer["points"]]


def _peak(answer: dict[str, Any]) -> Peak:
    return from_plain(Peak, answer["peak"])
