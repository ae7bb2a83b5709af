"""Workers that a job has lost and goes on without, as its servers have written down."""

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

    @property
    def look_s(self) -> float:
        """How long nobody need look whether a worker has been given up."""
        return LOOK_S if any(map(self._launch.may_lose, self._launch.parties)) else math.inf

    def of(self, party: Party) -> dict[str, Any] | None:
        """What servers have written about the loss of a worker; None where they go on with it. The last step may have
        reached some of them only."""
        plan = self._launch.plan
        if not self._launch.may_lose(party) or not isinstance(plan, Plan):
            return None
        said = [self._said(self._launch.lost(party, shard), party) for shard in range(plan.servers.count)]
        return max((one for one in said if one is not None), key=lambda one: one["steps"], default=None)

    def _said(self, path: Path, party: Party) -> dict[str, Any] | None:
        try:
            found = json.loads(read_regular(path, _MOST_BYTES, root=self._launch.directory))
        except FileNotFoundError:
            return None
        except (NotRegularError, ValueError, RecursionError) as error:  # a user's code may write here
            logger.warning("what was said about the loss of %s is not read: %s", party.name, error)
            return None
        sound = isinstance(found, dict) and isinstance(found.get("steps"), int) and "reason" in found
        return found if sound else None

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
        """`worker 2 was lost after 37 steps: killed by SIGKILL`, of each."""
        said = []
        for party, process in processes:
            loss, code = self.of(party), process.exitcode
            if loss is None or party.rank is None or self._launch.summary(party.rank).exists():
                continue
            why = str(loss["reason"])
            if code is not None and code < 0 and party.name not in self._ended:
                why = f"killed by {signal.Signals(-code).name}"
            said.append(f"{party.name} was lost after {loss['steps']} steps: {why}")
        return tuple(said)
