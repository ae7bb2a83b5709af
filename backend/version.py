"""This program's version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """As it was installed; `source` in a checkout that is not."""
    try:
        return version("trainyard")
    except PackageNotFoundError:
        return "source"
