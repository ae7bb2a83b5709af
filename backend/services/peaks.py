"""Peaks: what a worker of a job holds in memory, predicted by a short process as descriptions are made, and kept."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from typing import Any

from backend.schemas.memory import MemoryView
from backend.services.asker import Asker
from backend.services.describing import Allowance, Task, ask
from backend.services.descriptions import key_of
from backend.services.errors import Busy
from backend.services.plans import Planner
from backend.services.remember import Remembered
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
WAITING = 4
"""Requests that may wait while one is predicted, each on a thread that other requests need."""
RETRY_AFTER_S = 10
KEPT_LAYERS = 50_000
"""Of the predictions kept, all together."""


class Peaks:
    """Predicts; safe to call from many threads."""

    def __init__(self, planner: Planner, allowed: Allowance) -> None:
        self._planner = planner
        self._allowed = allowed
        self._one = threading.Lock()
        self._room = threading.BoundedSemaphore(1 + WAITING)
        # A process that predicts ends when our end closes, also because we were killed.
        self._lifeline, self._ours = Pipe(duplex=False)
        self._known: Remembered[Peak] = Remembered(room=KEPT_LAYERS, size=lambda peak: 1 + len(peak.saved))

    def predict(self, spec: JobSpec, asker: Asker | None = None) -> MemoryView:
        """Of worker 0. Raises UserError where a plan is refused, and for what nobody predicts, Busy where too many ask,
        and Left where the asker is gone."""
        planned = self._planner.plan(spec, asker)
        request = request_for(spec, planned.plan, planned.description)
        assert isinstance(planned.plan, Plan)
        key = key_of(request, spec.model, spec.data)
        peak = self._known.peek(key) or self._made(key, request, planned.description.name, asker)
        return MemoryView(worker=0, memory=worker_memory(spec, planned.plan, planned.description, peak))

    def close(self) -> None:
        """End what is being predicted: the server ends."""
        self._ours.close()

    def _made(self, key: str, request: dict[str, Any], subject: str, asker: Asker | None) -> Peak:
        if not self._room.acquire(blocking=False):
            raise Busy(
                f"{1 + WAITING} requests predict memory, or wait for it. Ask again in {RETRY_AFTER_S} s",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            with self._one:
                if asker is not None:
                    asker.check()
                return self._known.get(key, lambda: self._ask(request, subject, asker))
        finally:
            self._room.release()

    def _ask(self, request: dict[str, Any], subject: str, asker: Asker | None) -> Peak:
        answer = ask(request, subject, self._allowed, self._lifeline, PREDICT, asker=asker)
        return from_plain(Peak, answer["peak"])
