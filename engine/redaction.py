"""Secrets of a job, in the environment of its processes, and texts without them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar, cast

VARIABLE = "TRAINYARD_SECRETS"
"""The environment variable that names those of an attempt's processes that hold secrets, with commas between them."""
T = TypeVar("T")


def from_environment() -> tuple[str, ...]:
    """The secrets of this process, the longest first: one may hold another."""
    names = os.environ.get(VARIABLE, "")
    found = {value for name in names.split(",") if (value := os.environ.get(name))}
    return tuple(sorted(found, key=len, reverse=True))


def blotted(said: T, secrets: Sequence[str]) -> T:
    """`said`, a text or a JSON value, with stars in place of secrets."""
    found: object = said
    if isinstance(said, str):
        for secret in secrets:
            found = cast(str, found).replace(secret, "*" * len(secret))
    elif isinstance(said, dict):
        found = {name: blotted(value, secrets) for name, value in said.items()}
    elif isinstance(said, list):
        found = [blotted(value, secrets) for value in said]
    return cast(T, found)
