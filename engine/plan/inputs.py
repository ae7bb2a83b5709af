"""Where a job's data are prepared, and what cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from engine.axes.inputs import INPUT
from engine.catalogue import STRICT
from engine.errors import UserError, require_within
from engine.plan.description import ModelDescription

MOST_AHEAD = 64
MOST_PROCESSES = 64
USUAL_PROCESSES = 2


@dataclass(frozen=True, kw_only=True)
class Input:
    """Where the data are prepared, and how far ahead. Chosen for the job."""

    __pydantic_config__ = STRICT

    where: str = "cpu"
    """`cpu`: in a thread of each worker. `processes`: in processes of each worker's own. `device`: read by the thread,
    then transformed on the worker's device; for images that are stored as bytes (`cifar10`, `image-folder`)."""
    prefetch: int = 1
    """Batches prepared ahead of the step that uses them. 0: prepared when needed, in the thread that trains, or where
    there are processes one by each of them."""
    processes: int | None = None
    """Processes of each worker, under `where: processes`. Null: 2."""
    pinned: bool = True
    """Batches go to a CUDA device from page-locked memory, over a stream of their own, beside what it computes. False:
    from ordinary memory, in its turn. Without effect on the CPU, where nothing is copied."""

    def __post_init__(self) -> None:
        INPUT.require(self.where, "where")
        if not 0 <= self.prefetch <= MOST_AHEAD:
            raise UserError("prefetch", self.prefetch, f"must be from 0 to {MOST_AHEAD}", "Use 1 or 2")
        if self.processes is not None:
            if "processes" not in INPUT[self.where].traits:
                raise UserError(
                    "processes",
                    self.processes,
                    f"where {self.where} has none: a setting without effect",
                    "Leave it out, or use where: processes",
                )
            require_within("processes", self.processes, 1, MOST_PROCESSES)

    @property
    def text(self) -> str:
        """For people: `in 2 processes of each worker, 1 batch ahead`."""
        count = self.process_count
        if count:
            where = f"in {count} process{'es' * (count != 1)} of each worker"
        elif "staged" in INPUT[self.where].traits:
            where = "on the device that trains"
        else:
            where = "in a thread of each worker" if self.prefetch else "in the thread that trains"
        return f"{where}, {self.prefetch} batch{'es' * (self.prefetch != 1)} ahead"

    @property
    def ahead(self) -> int:
        """Batches that are there at the most beside the one in use: one more waits until there is room for it, and each
        process holds one."""
        return (self.prefetch + 1 if self.prefetch else 0) + self.process_count

    @property
    def process_count(self) -> int:
        """Processes of each worker."""
        if "processes" not in INPUT[self.where].traits:
            return 0
        return USUAL_PROCESSES if self.processes is None else self.processes


def check_input(given: Input, model: ModelDescription) -> None:
    """Raises UserError where the job's data cannot be prepared there."""
    if "staged" in INPUT[given.where].traits and model.staged is False:
        raise UserError(
            "input.where",
            given.where,
            "these data have nothing that a device could do: samples come from them ready-made",
            "Use cpu or processes; the device transforms the images of cifar10 and image-folder, and of a source of"
            " your own that has stored(indices, turn) and finished(stored)",
        )


def input_warnings(given: Input, *, rehearsed: bool) -> tuple[str, ...]:
    """What a person should know of it."""
    if rehearsed and given != Input():
        return ("input has no effect: a rehearsal reads no data.",)
    return ()
