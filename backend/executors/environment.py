"""What of the server's environment the programs see in which a user's code runs."""

from __future__ import annotations

import os

SECRETS = frozenset({"TRAINYARD_TOKEN", "TRAINYARD_TOKEN_FILE", "TRAINYARD_DATABASE_URL"})
"""The last may hold a password."""


def inherited() -> dict[str, str]:
    """This process's environment without the server's own secrets, in whatever case they are written: settings are read
    so, too."""
    return {name: value for name, value in os.environ.items() if name.upper() not in SECRETS}
