"""Budgets of memory: which layers keep, swap or compute again what they save, asked of a short process."""

from __future__ import annotations

from typing import Any

from backend.services.asker import Asker
from backend.services.describing import Task
from backend.services.predicting import Predictor
from engine.plan.budget import Fitted
from engine.plan.job import JobSpec
from engine.plan.serde import from_plain

CHOOSE = Task(
    module="engine.liveness",
    doing="choosing for the budget of memory",
    done="planned for its budget of memory",
    devices=False,
    too_long="Use a smaller model, or allow more with TRAINYARD_DESCRIPTION_SECONDS",
    holds="fitted",
)

LOOKS = 5
"""It may take so many times as long as one prediction, of which it makes up to 16."""


class Budgets:
    """Chooses; safe to call from many threads."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def choose(self, spec: JobSpec, request: dict[str, Any], asker: Asker | None = None) -> Fitted:
        """The answer to a request of `engine/strategies/fit_budget.py`. Raises UserError where no choice fits, Busy
        where too many ask, and Left where the asker is gone."""
        return self._predictor.predict(spec, request, CHOOSE, _fitted, asker, times=LOOKS)


def _fitted(answer: dict[str, Any]) -> Fitted:
    return from_plain(Fitted, answer["fitted"])
