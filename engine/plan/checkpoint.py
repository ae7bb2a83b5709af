"""CheckpointSpec: whether, and how often, a job's state is saved so that another attempt goes on from it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import require_positive, require_within
from engine.plan.units_of_measure import LARGEST

MOST = 1000
"""Checkpoints of one job that are kept."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSpec:
    """What another attempt goes on from."""

    __pydantic_config__ = STRICT

    every_steps: int | None = None
    """Steps between two checkpoints. Where neither this nor `every_seconds` is given there are none, and each attempt
    begins at step 0."""
    every_seconds: float | None = None
    """Seconds between two checkpoints, by worker 0's clock: at the end of the step in which they are over, to about a
    second. A checkpoint by steps counts, too."""
    keep: int = 2
    """So many of the newest are kept. With 1, one that is found damaged has no other behind it."""
    yields: bool = True
    """The scheduler may end an attempt with a checkpoint where a job of a higher priority needs its devices; the job
    goes on from there when there is room. Without effect where there are no checkpoints."""

    def __post_init__(self) -> None:
        if self.every_steps is not None:
            require_within("every_steps", self.every_steps, 1, LARGEST)
        require_positive("every_seconds", self.every_seconds, "seconds")
        require_within("keep", self.keep, 1, MOST)

    @property
    def asked(self) -> tuple[str, float] | None:
        """The field that asks for checkpoints, and its value; None: there are none."""
        if self.every_steps is not None:
            return "every_steps", self.every_steps
        return None if self.every_seconds is None else ("every_seconds", self.every_seconds)
