"""Workers that a job has lost and goes on without, as its servers, or where there are none its other workers, have
written down; and those that have joined it again, as they have."""

from __future__ import annotations

import json
import logging
import math
import signal
import time
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.loss_words import Loss
from engine.plan.plan import Plan
from engine.regular import NotRegularError, read_regular

LOOK_S = 1.0
"""How often it is looked whether servers have given up a worker whose process still lives."""
GRACE_S = 10.0
"""How long a worker that was given up may take to end by itself: it may be about to write down an error of its own."""
_MOST_BYTES = 2**16
logger = logging.getLogger(__name__)


class Losses:
    """One gang's."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._since_s: dict[str, float] = {}
        """When it was first seen here that a worker had been given up."""
        self._ended: set[str] = set()
        """Those whose processes were ended here, since the servers had given them up."""
        self._incarnation: dict[str, int] = {}
        """How often each worker has been started anew, where it has."""
        self._earlier: dict[str, list[str]] = {}
        """Of those: a sentence about each loss and each return of their incarnations before this one."""

    @property
    def look_s(self) -> float:
        """How long nobody need look whether a worker has been given up."""
        return LOOK_S if any(map(self._launch.may_lose, self._launch.parties)) else math.inf

    def of(self, party: Party) -> dict[str, Any] | None:
        """What those who go on have written about the loss of a worker; None where they go on with it. The last step
        may have reached some of them only."""
        plan = self._launch.plan
        if not self._launch.may_lose(party) or not isinstance(plan, Plan):
            return None
        now = self.incarnation(party)
        tellers = range(plan.servers.count or self._launch.job.cluster.workers)
        said = [self._said(self._launch.lost(party, teller), party) for teller in tellers]
        found = [one for one in said if one is not None and _is_loss(one) and one.get("incarnation") == now]
        return max(found, key=lambda one: one["steps"], default=None)

    def incarnation(self, party: Party) -> int:
        """How often the worker has been started anew."""
        return self._incarnation.get(party.name, 0)

    def came_late(self, party: Party) -> bool:
        """Whether the worker was started anew, and training was over when it came."""
        joined = self._joined(party)
        return joined is not None and joined["step"] is None

    def note(self, party: Party, code: int | None) -> int:
        """The worker has ended with this exit code, and is started anew now; answers which incarnation that is."""
        self._earlier.setdefault(party.name, []).extend(self._story(party, code))
        self._since_s.pop(party.name, None)
        self._ended.discard(party.name)
        self._incarnation[party.name] = self.incarnation(party) + 1
        return self._incarnation[party.name]

    def _said(self, path: Path, party: Party) -> dict[str, Any] | None:
        try:
            found = json.loads(read_regular(path, _MOST_BYTES, root=self._launch.directory))
        except FileNotFoundError:
            return None
        except (NotRegularError, ValueError, RecursionError) as error:  # a user's code may write here
            logger.warning("what was said about the loss of %s is not read: %s", party.name, error)
            return None
        return found if isinstance(found, dict) else None

    def end_given_up(self, processes: Iterable[tuple[Party, BaseProcess]]) -> bool:
        """End workers that have been given up and live on, in a debugger, say; answers whether there were any."""
        found = False
        for party, process in processes:
            if process.exitcode is not None or (loss := self.of(party)) is None:
                continue
            if time.monotonic() - self._since_s.setdefault(party.name, time.monotonic()) >= GRACE_S:
                logger.warning("%s is ended, since it was given up: %s", party.name, loss["reason"])
                self._ended.add(party.name)
                process.kill()
                process.join()
                found = True
        return found

    def sentences(self, processes: Iterable[tuple[Party, BaseProcess]]) -> tuple[str, ...]:
        """`worker 2 was lost after 37 steps: killed by SIGKILL`, of each loss, and of each return."""
        return tuple(
            sentence
            for party, process in processes
            if self._launch.may_lose(party)
            for sentence in (*self._earlier.get(party.name, ()), *self._story(party, process.exitcode))
        )

    def _story(self, party: Party, code: int | None) -> list[str]:
        """Of the worker's incarnation: how it came, where it was started anew, and how it was lost."""
        loss, joined, incarnation = self.of(party), self._joined(party), self.incarnation(party)
        said = []
        if joined is not None:
            late = joined["step"] is None
            how = "came back when training was over" if late else f"joined again at step {joined['step']}"
            said.append(f"{party.name} {how} (incarnation {incarnation})")
        if party.rank is None or self._launch.summary(party.rank).exists():
            return said
        if loss is not None:
            why = self._why(party, code) or str(loss["reason"])
            said.append(Loss(worker=party.name, steps=loss["steps"], why=why).text)
        elif incarnation and joined is None and code is not None:
            why = self._why(party, code) or f"exit code {code}"
            said.append(
                f"{party.name} was lost before it had joined again (incarnation {incarnation}): {why}"
            )
        return said

    def _why(self, party: Party, code: int | None) -> str | None:
        """How its process was killed, where it was, and not by this gang."""
        if code is None or code >= 0 or party.name in self._ended:
            return None
        return f"killed by {signal.Signals(-code).name}"

    def _joined(self, party: Party) -> dict[str, Any] | None:
        """What the worker has said about joining again; None where it was never lost, or has not come so far."""
        incarnation = self.incarnation(party)
        said = self._said(self._launch.joined(party, incarnation), party) if incarnation else None
        return said if said is not None and isinstance(said.get("step"), int | None) else None


def _is_loss(said: dict[str, Any]) -> bool:
    return isinstance(said.get("steps"), int) and "reason" in said
