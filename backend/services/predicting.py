"""Predictions of what a job's steps hold in memory: made by a short process as descriptions are, one at a time, and
kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from typing import Any, NamedTuple, TypeVar, cast

from backend.services.asker import Asker
from backend.services.describing import Allowance, Task, ask
from backend.services.descriptions import key_of
from backend.services.forks import Forks
from backend.services.remember import Remembered
from backend.services.turns import Turns
from engine.plan.job import JobSpec

WAITING = 4
"""Requests that may wait while one is predicted, each on a thread that other requests need."""
RETRY_AFTER_S = 10
KEPT_LAYERS = 50_000
"""Of the predictions kept, all together."""

T = TypeVar("T")


class _Kept(NamedTuple):
    value: Any
    layers: int


class Predictor:
    """Asks; safe to call from many threads."""

    def __init__(self, allowed: Allowance, forks: Callable[[], Forks | None] = lambda: None) -> None:
        """`forks`: who has loaded what predicting needs, where there is one."""
        self._allowed = allowed
        self._forks = forks
        self._turns = Turns(
            waiting=WAITING,
            busy="{places} requests predict memory, or wait for it",
            retry_after_s=RETRY_AFTER_S,
        )
        # A process that predicts ends when our end closes, also because we were killed.
        self._lifeline, self._ours = Pipe(duplex=False)
        self._known: Remembered[_Kept] = Remembered(room=KEPT_LAYERS, size=lambda kept: 1 + kept.layers)

    def predict(
        self,
        spec: JobSpec,
        request: dict[str, Any],
        task: Task,
        read: Callable[[dict[str, Any]], T],
        asker: Asker | None = None,
        *,
        times: int = 1,
    ) -> T:
        """What `read` makes of the answer to a request about a job. It may take so many `times` as long as a
        description. Raises UserError where the answer is one, Busy where too many ask, and Left where the asker is
        gone."""
        key = key_of(request, spec.model, spec.data)
        known = self._known.peek(key)
        if known is None:
            allowed = replace(self._allowed, seconds=times * self._allowed.seconds)
            known = self._made(key, spec, request, task, read, asker, allowed)
        return cast("T", known.value)

    def close(self) -> None:
        """End what is being predicted: the server ends."""
        self._ours.close()

    def _made(
        self,
        key: str,
        spec: JobSpec,
        request: dict[str, Any],
        task: Task,
        read: Callable[[dict[str, Any]], T],
        asker: Asker | None,
        allowed: Allowance,
    ) -> _Kept:
        subject = str(spec.model.name or spec.model.entrypoint)

        def make() -> _Kept:
            answer = ask(request, subject, allowed, self._lifeline, task, asker=asker, forks=self._forks())
            return _Kept(read(answer), len(request["described"]["layers"]))

        with self._turns.turn(asker):
            return self._known.get(key, make)
