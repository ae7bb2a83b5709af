"""An optimizer whose state is in a second tier of memory: what that cannot be combined with, and what a person should
know. No torch here; `engine/memory/offload.py` does it.

It may be combined with every way to exchange, average or drift: each optimizer, on a worker, a server or a device,
keeps its own state, and nobody else looks at that but through it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from engine.errors import UserError
from engine.plan.job import JobSpec
from engine.plan.optimizers import state_elements
from engine.plan.plan import Plan, Wrapper
from engine.plan.units_of_measure import format_bytes
from engine.plan.updates import OFFLOADED_BYTES, as_scheduled

P = TypeVar("P", Plan, Wrapper)

WHERE = (
    "optimizer.offload: the optimizer's state is in the host's memory, and updates run there. Where the model trains on"
    " the host itself, device and host are one memory: the state is then in a file on the disk that has the attempt's"
    f" folder, and is mapped into memory while a parameter is updated. Tensors below {format_bytes(OFFLOADED_BYTES)}"
    " stay where they are."
)
NOTHING = "optimizer.offload has no effect: {name} with these options keeps nothing of its parameters."


def check_offload(plan: Plan | Wrapper, job: JobSpec) -> None:
    """Raises UserError where the state cannot be offloaded."""
    optimizer = job.optimizer
    if not optimizer.offload:
        return
    if isinstance(plan, Wrapper) and plan.runner == "fsdp":
        raise UserError(
            "optimizer.offload",
            True,
            "under fsdp the state belongs to PyTorch's own shards of parameters, which stay on their device",
            "Leave it out, or use any other strategy",
        )
    for options in (optimizer.options, *(group.options for group in optimizer.groups)):
        if options.get("capturable"):
            raise UserError(
                "optimizer.offload",
                True,
                "the option capturable has the optimizer count its steps on a CUDA device, and updates run on the host",
                "Leave one of the two out",
            )


def with_offload_words(plan: P, job: JobSpec) -> P:
    """The plan with what is to be known of an offloaded state."""
    if not job.optimizer.offload:
        return plan
    words = WHERE if _keeps(job) else NOTHING.format(name=job.optimizer.name)
    return replace(plan, warnings=tuple(dict.fromkeys((*plan.warnings, words))))


def _keeps(job: JobSpec) -> bool:
    optimizer = as_scheduled(job.optimizer, job.schedule)
    given = ({}, *(group.options for group in optimizer.groups))
    return any(state_elements(optimizer.name, {**optimizer.options, **more}, (1,))[0] for more in given)
