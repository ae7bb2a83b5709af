"""Which values of an optimizer's options torch's class refuses when it is made, as far as one option by itself says so:
known before anything starts. The class says the rest, in the worker. No torch here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from engine.errors import UserError


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    rule: str
    remedy: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _are_decays(value: Any) -> bool:
    pair = isinstance(value, list | tuple) and len(value) == 2
    return pair and all(_is_number(one) and 0 <= one < 1 for one in value)


_SWITCH = _Rule(lambda value: value is None or isinstance(value, bool), "is a switch", "Give true or false")
_NOT_NEGATIVE = _Rule(
    lambda value: _is_number(value) and value >= 0,
    "must be a number of at least 0",
    "Give one, or leave it out",
)
_SHARE = _Rule(
    lambda value: _is_number(value) and 0 <= value <= 1, "must be a number from 0 to 1", "Give e.g. 0.9"
)
_DECAYS = _Rule(_are_decays, "must be two numbers, each from 0 to below 1", "Give e.g. [0.9, 0.999]")

_RULES = {
    **dict.fromkeys(("nesterov", "amsgrad", "centered", "decoupled_weight_decay"), _SWITCH),
    **dict.fromkeys(("foreach", "maximize", "differentiable", "fused", "capturable"), _SWITCH),
    **dict.fromkeys(("lr", "momentum", "weight_decay", "eps", "alpha", "lr_decay"), _NOT_NEGATIVE),
    **dict.fromkeys(("initial_accumulator_value", "momentum_decay"), _NOT_NEGATIVE),
    "rho": _SHARE,
    "betas": _DECAYS,
}
_OTHERWISE = {("adafactor", "eps")}
"""(optimizer, option) that is something else than elsewhere."""


def check_values(optimizer: str, given: Mapping[str, Any], field: str) -> None:
    """Raises UserError at `field` for a value that the class of `optimizer` refuses."""
    for name, value in given.items():
        known = _RULES.get(name) if (optimizer, name) not in _OTHERWISE else None
        if known is not None and not known.holds(value):
            raise UserError(f"{field}.{name}", value, known.rule, known.remedy)
    if optimizer == "sgd" and given.get("nesterov") and (not given.get("momentum") or given.get("dampening")):
        rule = "needs momentum, and no dampening"
        raise UserError(f"{field}.nesterov", True, rule, f"Give {field}.momentum, e.g. 0.9")
