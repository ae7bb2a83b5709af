"""What of the server's environment the programs see in which a user's code runs."""

from __future__ import annotations

import os

SECRETS = frozenset(
    {
        "TRAINYARD_TOKEN",
        "TRAINYARD_TOKEN_FILE",
        "TRAINYARD_DATABASE_URL",
        "TRAINYARD_SECRETS_KEY_FILE",
        "PGPASSWORD",
        "PGPASSFILE",
        "PGSERVICEFILE",
        "PGSSLKEY",
        "PGSSLPASSWORD",
    }
)
"""The URL may hold the database's password; PostgreSQL's own variables are how a server finds one that the URL does not
hold. Whoever has it may make themselves an admin."""


def inherited() -> dict[str, str]:
    """This process's environment without the server's own secrets, in whatever case they are written: settings are read
    so, too."""
    return {name: value for name, value in os.environ.items() if name.upper() not in SECRETS}
