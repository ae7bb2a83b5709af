"""FaultsSpec: what a job's workers are made to suffer on purpose, so that one sees how a strategy bears it.

A straggler is a worker that computes more slowly than the others. Results that do not depend on who is faster stay
what they are; what changes is time. (What tests do to processes, such as killing one, is no part of a job:
`engine/runtime/faults.py`.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine.catalogue import STRICT
from engine.errors import UserError

MOST_FACTOR = 1000.0
MOST_JITTER = 2.0
MOST_PAUSE_S = 300.0
"""Below the time after which the others give up a worker from which nothing comes."""


@dataclass(frozen=True, kw_only=True)
class StragglerSpec:
    """One worker that computes more slowly than it could. Forward and backward passes take longer, in a rehearsal the
    profile's times; updates, evaluations and the network stay as they are."""

    __pydantic_config__ = STRICT

    worker: int
    """Which worker, counted from 0."""
    factor: float = 2.0
    """Every pass takes so many times as long as it would. 1: only jitter and pauses slow the worker."""
    jitter: float = 0.0
    """How much the factor varies from step to step: each step's is multiplied by a number that is log-normal around 1,
    whose logarithm has this standard deviation. The same for every run of the job. A pass is never made shorter."""
    pause_every_steps: int | None = None
    """Before every so many steps the worker stands still for `pause_s`. Null: never."""
    pause_s: float = 0.0
    """Seconds of such a pause; they count as computation."""

    def __post_init__(self) -> None:
        if self.worker < 0:
            raise UserError("worker", self.worker, "workers are counted from 0", "Give 0 or more")
        _require("factor", self.factor, 1, MOST_FACTOR, "no worker can be made faster", "2 is twice as long")
        _require("jitter", self.jitter, 0, MOST_JITTER, "is a standard deviation", "0.3 is a lot; 0 is none")
        if self.pause_every_steps is not None and self.pause_every_steps < 1:
            raise UserError(
                "pause_every_steps",
                self.pause_every_steps,
                "must be at least 1",
                "Leave it out for no pauses",
            )
        longest = "the others wait for a worker for ten minutes only"
        _require("pause_s", self.pause_s, 0, MOST_PAUSE_S, longest, "Give seconds, e.g. 0.5")
        if (self.pause_every_steps is None) != (self.pause_s == 0):
            given = {"pause_every_steps": self.pause_every_steps, "pause_s": self.pause_s}
            raise UserError("pause_s", given, "pauses need both how often and how long", "Give both, or none")
        if self.factor == 1 and self.jitter == 0 and self.pause_every_steps is None:
            rule = "slows nothing without jitter or pauses"
            raise UserError("factor", self.factor, rule, "Give e.g. factor: 2, or leave the worker out")

    @property
    def text(self) -> str:
        """`worker 1 slowed: computes 2x as long, jitter 0.3, pauses 0.5 s every 20 steps`."""
        every = self.pause_every_steps
        said = [
            f"computes {self.factor:g}x as long" if self.factor != 1 else "",
            f"jitter {self.jitter:g}" if self.jitter else "",
            f"pauses {self.pause_s:g} s every {'step' if every == 1 else f'{every} steps'}" if every else "",
        ]
        return f"worker {self.worker} slowed: {', '.join(filter(None, said))}"


@dataclass(frozen=True, kw_only=True)
class FaultsSpec:
    """What is made worse on purpose. It is said wherever the job is shown, and only jobs with the same faults
    compare."""

    __pydantic_config__ = STRICT

    stragglers: tuple[StragglerSpec, ...] = ()
    """Workers that compute more slowly than they could, each named once."""

    def __post_init__(self) -> None:
        seen: set[int] = set()
        for position, straggler in enumerate(self.stragglers):
            if straggler.worker in seen:
                rule, remedy = "this worker is slowed already", "Write its factor, jitter and pauses together"
                raise UserError(f"stragglers.{position}.worker", straggler.worker, rule, remedy)
            seen.add(straggler.worker)

    def check(self, workers: int) -> None:
        """Raises UserError for a worker that a job of so many does not have."""
        for position, straggler in enumerate(self.stragglers):
            if straggler.worker >= workers:
                rule = f"the job has {workers} worker{'s' * (workers != 1)}, counted from 0"
                remedy = f"Give a number from 0 to {workers - 1}"
                raise UserError(f"faults.stragglers.{position}.worker", straggler.worker, rule, remedy)

    def of(self, worker: int) -> StragglerSpec | None:
        """What slows this worker; None: nothing."""
        return next((each for each in self.stragglers if each.worker == worker), None)

    @property
    def text(self) -> str | None:
        """What stands beside every figure of the job, by worker, in whatever order they were given; None: nothing."""
        found = sorted(self.stragglers, key=lambda each: each.worker)
        return "; ".join(each.text for each in found) or None


def _require(field: str, value: Any, least: float, most: float, why: str, remedy: str) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise UserError(field, value, f"{why}: from {least:g} to {most:g}", remedy)
