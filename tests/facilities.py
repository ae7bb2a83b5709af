"""What a machine may lack: tests that need it are skipped there, unless the machine is one that must have it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRED = "TRAINYARD_REQUIRE"
"""The environment variable that names what this machine must have, comma-separated: continuous integration sets it."""
FACILITIES = ("browser", "compiler", "delay", "disk", "lab", "postgres")
"""A Chromium; a C and a C++ compiler; a kernel that can delay packets; the permission to mount a small disk; the
permission to make network namespaces; a PostgreSQL."""


def required() -> frozenset[str]:
    """What this machine must have. Raises UsageError where a name is unknown."""
    names = frozenset(filter(None, os.environ.get(REQUIRED, "").replace(" ", "").split(",")))
    if unknown := names.difference(FACILITIES):
        known = ", ".join(FACILITIES)
        raise pytest.UsageError(f"{REQUIRED} names {', '.join(sorted(unknown))}. Known: {known}")
    return names


def unavailable(facility: str, reason: str) -> NoReturn:
    """End the running test: it is skipped, or has failed where this machine must have the facility."""
    assert facility in FACILITIES, facility
    if facility in required():
        pytest.fail(f"{REQUIRED} says that this machine has it, but: {reason}", pytrace=False)
    pytest.skip(reason)
