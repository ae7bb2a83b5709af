"""What a job that waits is told: at which position, for what, and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from backend.scheduler.victims import LEAVES_S

if TYPE_CHECKING:
    from backend.scheduler.decide import Demand, Device, Kind, Occupant, QueuedJob

COUNTED = 20
"""So many are told their number in the queue. It changes with every job that starts, and is written each time; of
those behind, only who loses the one before it hears something new."""


def for_others(owner: Occupant | None, names: Collection[str]) -> str:
    """Somebody runs alone, or this job wants to, and so many run."""
    if owner is not None:
        return f"next in the queue: {owner.job_name!r} runs alone, as it asked (cluster.alone)"
    several = f"{', '.join(map(repr, names))} run{'s' if len(names) == 1 else ''}"
    return f"next in the queue: it runs alone, as it asked (cluster.alone), and {several} still"


def for_devices(
    kind: Kind,
    needed: int,
    free: int,
    total: Sequence[Device],
    held: Mapping[str, Occupant],
    out: Collection[str],
) -> str:
    """Too few are free, of all devices of its kind. `out`: ids of those that are free and drained."""
    holders: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    asked: dict[str, str] = {}
    for device in total:
        if occupant := held.get(device.id):
            holders.setdefault(occupant.job_id, []).append(device.id)
            names[occupant.job_id] = occupant.job_name
            if occupant.leaving:
                asked[occupant.job_id] = ", and makes room"
            elif occupant.asked_unix_ns is not None:
                asked[occupant.job_id] = (
                    f", was asked to make room more than {LEAVES_S / 60:.0f} min ago, and has not left"
                )
    who = [
        f"{names[j]!r} holds {' and '.join(ids) if len(ids) < 4 else f'{len(ids)} of them'}{asked.get(j, '')}"
        for j, ids in holders.items()
    ]
    if out:
        listed = " and ".join(out) if len(out) < 4 else f"{len(out)} of them"
        who.append(f"{listed} {'is' if len(out) == 1 else 'are'} drained for maintenance")
    verb = "is" if free == 1 else "are"
    needs = f"needs {count(needed, kind)}, {free} of {len(total)} {verb} free"
    return "; ".join([f"next in the queue: {needs}", *who])


def in_maintenance(job: QueuedJob, kind: Kind, drained: int) -> str:
    """What it needs is drained, or will be before it has ended; `drained`: devices of its kind."""
    needs = (
        f"needs {count(job.demand.devices, kind)}, and {drained} of those that this server has"
        f" {'is' if drained == 1 else 'are'} in maintenance, or will be before it has ended"
    )
    known = "" if job.duration_ns is not None else " (nobody knows when that is: it declares no duration_s)"
    return f"{needs}{known}. It waits until they are back, and others go before it"


ROOM_FOR_MAINTENANCE = (
    "it makes room, as devices that it holds are in maintenance: it ends its attempt with a checkpoint, and goes on"
    " from there when its turn comes"
)


def too_many(kind: Kind, widest: int, every: Sequence[Device], demand: Demand) -> tuple[str, str]:
    """More workers than devices that they may have together: the rule, and more of the remedy. `widest`: so many."""
    if widest == len(every):
        return f"more workers than the server's {count(widest, kind)}", ""
    models = Counter(device.model for device in every)
    if kind == "cuda" and not demand.mixed_gpus and len(models) > 1:
        listed = ", ".join(f"{n} x {model or 'unknown'}" for model, n in models.items())
        return f"more workers than GPUs of one model on one node, of {listed}", "or cluster.mixed_gpus, "
    return f"more workers than {count(widest, kind)} of one node, of {len(every)} in all", ""


def for_together(kind: Kind, demand: Demand, free: int) -> str:
    """Enough are free, but not together."""
    of_one = " of one model" if kind == "cuda" and not demand.mixed_gpus else ""
    return (
        f"next in the queue: needs {count(demand.devices, kind)}{of_one} on nodes that it may have together"
        f" (cluster.nodes: {demand.nodes}); {free} are free, but not so"
    )


def for_executor(outage: str) -> str:
    """Nothing can be launched, whatever is free."""
    return f"no device can be reached: {outage}. It starts when that is over"


def for_group(devices: Sequence[str]) -> str:
    """Devices are free, but not those on which the other jobs of its race ran."""
    return f"next in the queue: it runs where the other jobs of its race ran, on {' and '.join(devices)}"


def in_line(job: QueuedJob, before: QueuedJob, position: int) -> str:
    """Somebody waits before it."""
    why = "older"
    if before.priority > job.priority:
        why = f"priority {before.priority}"
    elif before.project != job.project:
        whose = f"its project {before.project!r} has" if before.project else "jobs without a project have"
        why = f"{whose} used less of the devices for the share"
    number = f"number {position} in" if position <= COUNTED else f"beyond the first {COUNTED} of"
    return f"{number} the queue, behind {before.name!r} ({why})"


def over_quota(job: QueuedJob, kind: Kind, needed: int, held: int, limit: int) -> str:
    """Its project may hold no more."""
    text = (
        f"needs {count(needed, kind)}; its project {job.project!r} holds {held} and may hold {limit} at once"
    )
    if needed > limit:
        return f"{text}: it waits until an admin gives the project a larger quota"
    return f"{text}: it waits until jobs of its project have ended, and others go before it"


def room_for(job: QueuedJob) -> str:
    """Why a job that runs has to end."""
    return (
        f"it makes room for {job.name!r} (priority {job.priority}): it ends its attempt with a checkpoint, and goes on"
        " from there when its turn comes"
    )


def count(n: int, kind: Kind) -> str:
    """So many devices of a kind."""
    if kind == "rehearsal":
        return f"{n} slot{'' if n == 1 else 's'} for rehearsals"
    return f"{n} {kind.upper()} device{'' if n == 1 else 's'}"
