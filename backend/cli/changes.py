"""`--set field=value`: changes to a specification, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import UserError
from engine.plan.documents import load_text

_MOST_DIGITS = 9
"""Of a place in a list; more than that is none."""


def change(
    spec: dict[str, Any], settings: Sequence[str] | None, lists: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The specification with `settings` (`field=value`, YAML values) put in. Fields are dotted, and a number is a place
    in a list: `overrides.0.codec`; the one behind its last entry adds one. Where `spec` is but a patch of another
    specification, that one's `lists` are what is changed: a patch can only replace a list whole. Raises UserError."""
    for text in settings or []:
        field, equals, value = text.partition("=")
        names = field.split(".")
        if not (equals and all(names)):
            raise UserError("--set", text, "must read field=value", "Example: --set training.steps=20")
        spec = _changed(spec, names, 0, load_text(value, text), text, lists)
    return spec


def _changed(old: Any, names: Sequence[str], depth: int, value: Any, text: str, lists: Any) -> Any:
    """`old`, which the first `depth` names lead to, with `value` where the others lead from there."""
    if depth == len(names):
        return value
    name, where = names[depth], ".".join(names[:depth])
    if old is None:
        old = lists if isinstance(lists, list) else [] if name.isdecimal() else {}
    if isinstance(old, dict):
        inner = lists.get(name) if isinstance(lists, Mapping) else None
        return old | {name: _changed(old.get(name), names, depth + 1, value, text, inner)}
    if not isinstance(old, list):
        rule = f"{where} is {old!r}, which has no fields"
        raise UserError("--set", text, rule, "Name a field of a job, see `trainyard schema`")
    if not name.isdecimal():
        rule, remedy = f"{where} is a list, and {name!r} is no place in it", f"Name one, e.g. {where}.0"
        raise UserError("--set", text, rule, remedy)
    place = int(name) if len(name) <= _MOST_DIGITS else len(old) + 1
    if place > len(old):
        entries = "is empty" if not old else f"has places 0 to {len(old) - 1}"
        raise UserError("--set", text, f"{where} {entries}", f"{where}.{len(old)} adds an entry")
    entry = old[place] if place < len(old) else None
    return [*old[:place], _changed(entry, names, depth + 1, value, text, None), *old[place + 1 :]]
