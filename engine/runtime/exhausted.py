"""A worker that cannot have the memory it asks for: said with what it asked for, where it was, what holds the rest, and
what to do.

PyTorch's allocators raise RuntimeErrors that are told by their words, that of CUDA by its class; Python and NumPy raise
MemoryError. Whoever caught one and raised something else had it as the cause.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator

import torch

from engine.errors import OutOfMemoryError
from engine.launch import Launch
from engine.plan.cluster import Party
from engine.plan.exhausted import holders, remedy
from engine.plan.units_of_measure import format_bytes
from engine.state.recording import Recording
from engine.telemetry.memory import resident_bytes

_HOST = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
)
"""What PyTorch says where the host has no more."""
_DEPTH = 16
"""Causes of causes that are looked at."""


def out_of_memory(
    error: BaseException, launch: Launch, party: Party, recording: Recording
) -> OutOfMemoryError | None:
    """What to say of an error where memory was exhausted; None for any other. Its traceback is that of the error, so
    that it shows the user's own line."""
    cause = next((each for each in _causes(error) if _is_exhausted(each)), None)
    if cause is None:
        return None
    asked = asked_for(str(cause))
    whose = "of its device's memory" if isinstance(cause, torch.OutOfMemoryError) else "of the host's memory"
    what = f"could not have {format_bytes(asked)} {whose}" if asked else f"could not have more {whose}"
    place = recording.where.said(launch.model, launch.job.pass_samples(launch.job.cluster.workers))
    return OutOfMemoryError(
        f"{party.name} {what} {place}."
        f" {_held_now(cause)}{holders(launch.job, launch.plan, launch.model, party)}."
        f" {remedy(launch.job, launch.plan, party)}"
    ).with_traceback(cause.__traceback__)


def asked_for(message: str) -> int | None:
    """Bytes that an allocator's message says it was asked for; None where it says none."""
    if (found := re.search(r"tried to allocate (\d+) bytes", message)) is not None:
        return int(found[1])
    found = re.search(r"(?:Tried|Unable) to allocate ([\d.]+) ([KMGT]?i?B)", message)
    return round(float(found[1]) * _UNITS[found[2]]) if found is not None and found[2] in _UNITS else None


_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def _is_exhausted(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _HOST)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and so on."""
    found: BaseException | None = error
    for _ in range(_DEPTH):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _held_now(cause: BaseException) -> str:
    """What the process holds, and what it may."""
    if isinstance(cause, torch.OutOfMemoryError):
        return f"{held_on_device()} "
    held, (limit, _) = resident_bytes(), resource.getrlimit(resource.RLIMIT_AS)
    said = f"Its process held {format_bytes(held)} then" if held is not None else ""
    if limit != resource.RLIM_INFINITY:
        said += (
            f"{', and its' if said else 'Its'} address space is limited to {format_bytes(limit)} (ulimit -v)"
        )
    return f"{said}. " if said else ""


def held_on_device() -> str:
    """In a sentence."""
    counts = torch.cuda.memory_stats()
    held = counts.get("allocated_bytes.all.current", 0)
    kept = counts.get("reserved_bytes.all.current", 0)
    free, total = torch.cuda.mem_get_info()
    return (
        f"Its tensors held {format_bytes(held)} then, for which it kept {format_bytes(kept)}; of the device's"
        f" {format_bytes(total)} there were {format_bytes(free)} free."
    )
