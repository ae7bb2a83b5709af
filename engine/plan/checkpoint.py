"""CheckpointSpec: whether, and how often, a job's state is saved so that another attempt goes on from it, and the
checkpoint of another job that a job begins with."""

from __future__ import annotations

from dataclasses import dataclass

from engine.catalogue import STRICT
from engine.errors import UserError, require_positive, require_within
from engine.plan.units_of_measure import LARGEST

MOST = 1000
"""Checkpoints of one job that are kept."""


@dataclass(frozen=True, kw_only=True)
class StartSpec:
    """A checkpoint of another job. The numbers of workers and servers, the strategy, codec and batch may be others than
    there: parameters, buffers and the optimizer's state are put together, and divided anew. What codecs keep of
    gradients is left behind, and random numbers begin anew."""

    __pydantic_config__ = STRICT

    job: str
    """The id of the job with whose checkpoint this one begins. Both have the same model and the same optimizer."""
    step: int | None = None
    """The step of that checkpoint, with which this job goes on: its schedule and its data are where they are after so
    many steps of its own. Left out: the newest one when the first attempt begins."""

    def __post_init__(self) -> None:
        if not self.job:
            raise UserError("job", self.job, "an id names the job", "Give the id that the job's page shows")
        if self.step is not None:
            require_within("step", self.step, 1, LARGEST)


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
    start: StartSpec | None = None
    """The checkpoint of another job that this one begins with. Left out: with step 0, and what the model's builder
    gives."""
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
