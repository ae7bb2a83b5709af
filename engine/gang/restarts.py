"""Workers that are started anew after they were lost (`cluster.worker_loss: rejoin`): which, how often, and when."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from engine.errors import TrainingError
from engine.gang.losses import LOOK_S, Losses
from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.restarts import pause_before

logger = logging.getLogger(__name__)


class Restarts:
    """One gang's."""

    def __init__(self, launch: Launch, losses: Losses) -> None:
        self._launch = launch
        self._losses = losses
        self._due_s: dict[str, float] = {}
        """When the next start of a worker that has ended is due, on the monotonic clock."""

    def may_start(self, party: Party, error: dict[str, Any] | None) -> bool:
        """Whether the worker, which has ended with this error of its own or without one, may be started anew."""
        if not self._launch.may_lose(party) or (error is not None and _is_for_good(error)):
            return False
        return self._losses.incarnation(party) < self._launch.restarts

    def plan(self, party: Party) -> None:
        """It has ended, and is to be started anew after a pause."""
        if party.name not in self._due_s:
            number = self._losses.incarnation(party) + 1
            pause_s = pause_before(number, self._launch.job.cluster.restart_pause_s)
            logger.warning("%s is started anew in %g s (%d)", party.name, pause_s, number)
            self._due_s[party.name] = time.monotonic() + pause_s

    def is_planned(self, party: Party) -> bool:
        return party.name in self._due_s

    @property
    def next_s(self) -> float:
        """How long nobody need be started."""
        left = (due - time.monotonic() for due in self._due_s.values())
        return min((each if each > 0 else LOOK_S for each in left), default=math.inf)

    def is_due(self, party: Party) -> bool:
        """Whether it is to be started now. A loss that no server knows of is no loss of training: the job ends by it,
        and no start would help."""
        if self._due_s.get(party.name, math.inf) > time.monotonic():
            return False
        return self._losses.incarnation(party) > 0 or self._losses.of(party) is not None

    def begin(self, party: Party, code: int | None) -> int:
        """It is started anew now, after it had ended with exit code `code`; answers its incarnation. Its error is put
        aside: what is found in that place from now on is another one's."""
        del self._due_s[party.name]
        incarnation = self._losses.note(party, code)
        error = self._launch.error(party)
        if error.exists():
            error.replace(error.with_suffix(f".{incarnation - 1}.json"))
        return incarnation


def _is_for_good(error: dict[str, Any]) -> bool:
    """Whether Trainyard itself says that the job cannot go on: that meets the others, or the next start."""
    return error.get("user") is not None or str(error["type"]) == TrainingError.__name__
