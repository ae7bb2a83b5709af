"""How long what was done is kept."""

from __future__ import annotations

LEAST_DAYS = 30
"""The database itself refuses to delete a younger entry of the audit log, by its own clock."""
