"""A mechanism's own options, as a plan gives them to a layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from engine.catalogue import Mechanism
from engine.errors import UnknownNameError, UserError
from engine.plan.serde import from_plain, join


def options_of(mechanism: Mechanism, given: Mapping[str, Any] | None, field: str) -> Any:
    """Those that are `given`, and the others' defaults. Raises UserError below `field` for those that it does not have,
    and for values that it cannot have."""
    if not given:  # of thousands of layers hardly one has any: all share what nobody can change
        try:
            return _defaults(mechanism.options)
        except UserError as error:
            raise error.within(field) from None
    known = [each.name for each in fields(mechanism.options)]
    for name, value in given.items():
        if not known:
            raise UserError(join(field, name), value, f"{mechanism.name} has no options", "Leave it out")
        if name not in known:
            raise UnknownNameError(join(field, name), name, f"option of {mechanism.name}", known).of(value)
    return from_plain(mechanism.options, dict(given), field)


@cache
def _defaults(options: type) -> Any:
    return from_plain(options, {})


def changed(name: str, options: Any) -> str:
    """For people: a mechanism, and what of its options differs from their defaults."""
    said = [
        f"{each.name} {getattr(options, each.name)}"
        for each in fields(options)
        if getattr(options, each.name) != each.default
    ]
    return ", ".join([name, *said])
