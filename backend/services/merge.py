"""A JSON merge patch (RFC 7386): the changes that a clone makes to a job's specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(value: Any, patch: Any) -> Any:
    """`value` with the members of `patch` in place of its own, objects member by member; null takes one out, so
    that it gets its default."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(value) if isinstance(value, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), change)
    return result
