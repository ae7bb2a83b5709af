"""How much a text of a user may hold, whoever reads it: service, terminal and workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one text in YAML or JSON."""

    size: int
    """Bytes."""
    values: int
    """Values (objects, lists, texts, numbers), with those that aliases and merges repeat."""
    levels: int = 64
    """Of values within values. What walks through them takes a frame or two of the interpreter's stack for each."""
    digits: int = 100
    """Characters of one number."""


JOB = Limits(size=2**20, values=10_000)
"""A specification has a few hundred values, and an override for each of a thousand layers has some thousands."""
PROFILE = Limits(size=2**26, values=500_000)
"""A measured profile has four values for each layer."""
