"""Acknowledgements of telemetry."""

from __future__ import annotations

from backend.schemas.base import Schema


class Accepted(Schema):
    """What the server holds for good."""

    party: int
    sequence: int
    repeated: bool
    """It was there already; nothing changed."""


class Sealed(Schema):
    """The attempt's telemetry is complete."""

    batches: int
    repeated: bool
    """It was sealed with the same numbers before."""
