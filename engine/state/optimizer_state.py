"""What a torch.optim optimizer goes on from: of each tensor, what it keeps beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from engine.plan.optimizers import SCALAR_STATE


def state_of(optimizer: torch.optim.Optimizer, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of all that is kept for `named`, as `name/slot`; nothing of one that was never updated. Raises TypeError
    for what is no tensor."""
    found = {}
    for name, parameter in named.items():
        for slot, held in optimizer.state.get(parameter, {}).items():
            if held is None:
                continue
            if not isinstance(held, Tensor):
                raise TypeError(
                    f"{type(optimizer).__name__} keeps a {type(held).__name__}, {slot}, for {name}"
                )
            found[f"{name}/{slot}"] = held
    return found


def load_state(
    optimizer: torch.optim.Optimizer,
    named: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    loaded: Callable[[str], None] = lambda name: None,
) -> None:
    """Go on from `state_of` the same tensors, of which copies are kept. `loaded(name)` is told when all that is kept
    for one of `named` is there, before anything of the next one is asked for. Raises KeyError for one that is not
    there."""
    counts_on_device = {
        id(parameter): bool(group.get("fused") or group.get("capturable"))
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for parameter in named.values():
        optimizer.state.pop(parameter, None)
    slots: dict[str, list[str]] = {}
    for full in state:
        name, _, slot = full.rpartition("/")
        slots.setdefault(name, []).append(slot)
    for name, mine in slots.items():
        parameter = named[name]
        for slot in mine:
            # As torch does: it counts steps on the host, unless a kernel on the device does.
            there = slot not in SCALAR_STATE or counts_on_device[id(parameter)]
            device = parameter.device if there else "cpu"
            optimizer.state[parameter][slot] = state[f"{name}/{slot}"].to(device, copy=True)
        loaded(name)
