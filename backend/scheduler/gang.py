"""Which devices a whole gang may get together: on one node or several, and GPUs of one model.

**Rule.** A gang's GPUs are of one model, unless the job says otherwise: the slowest would set the pace of all, unseen.
A gang is on one node, unless the executor can span nodes. Where it can, a packed gang is on as few nodes as it takes:
on one, for which it waits, if any has enough devices for it; of several that fit, on the one with least left over, so
that wide gaps stay for wide gangs (best fit). One that is spread is dealt over as many nodes as have free devices, in
turn. **Loses**: a packed gang waits although enough devices are free on several nodes together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.scheduler.decide import Demand, Device


def widest(devices: Sequence[Device], demand: Demand, *, spans: bool) -> int:
    """The most devices that a gang with this demand could get of these, if nobody else were there. `spans`: the
    executor can span nodes."""
    return max((len(group) for alike in _alike(devices, demand) for group in _rooms(alike, spans)), default=0)


def choose(
    free: Sequence[Device], demand: Demand, every: Sequence[Device], *, spans: bool, keeps_order: bool = False
) -> list[Device] | None:
    """The devices that the gang gets of the `free` ones, the first ones first as far as the rule lets it; None where it
    does not fit. `every`: all of the kind that are in use. `keeps_order`: the first node that fits is better than the
    one with least left over."""
    needed = demand.devices
    for alike in _alike(free, demand):
        if len(alike) < needed:
            continue
        nodes = _by(alike, lambda device: device.node)
        fitting = [group for group in nodes if len(group) >= needed]
        if not spans or (demand.nodes == "pack" and _fits_on_one(alike, demand, every)):
            if fitting:
                return (fitting[0] if keeps_order else min(fitting, key=len))[:needed]
            continue
        nodes.sort(key=len, reverse=True)
        if demand.nodes == "pack":
            return list(chain.from_iterable(nodes))[:needed]
        dealt = chain.from_iterable(zip_longest(*nodes))
        return [device for device in dealt if device is not None][:needed]
    return None


def _fits_on_one(alike: Sequence[Device], demand: Demand, every: Sequence[Device]) -> bool:
    """Whether any node has enough devices of these GPUs' model for the gang, free or not."""
    first = next(group for group in _alike(every, demand) if alike[0] in group)
    return widest(first, demand, spans=False) >= demand.devices


def _alike(devices: Sequence[Device], demand: Demand) -> list[list[Device]]:
    """The devices in groups that one gang may mix."""
    return _by(devices, lambda device: "" if demand.mixed_gpus or device.kind != "cuda" else device.model)


def _rooms(devices: Sequence[Device], spans: bool) -> list[list[Device]]:
    return [list(devices)] if spans else _by(devices, lambda device: device.node)


def _by(devices: Sequence[Device], key: Callable[[Device], str]) -> list[list[Device]]:
    """In groups, each in the order of the devices, who has the first one first."""
    found: dict[str, list[Device]] = {}
    for device in devices:
        found.setdefault(key(device), []).append(device)
    return list(found.values())
