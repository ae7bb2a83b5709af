"""How long a job is expected to run: as it declared, else as earlier ones of the same digest did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

LEAST, NEWEST = 3, 9
"""Earlier jobs: with fewer nothing is learned, and older ones are not looked at."""
NO_MATTER = frozenset(
    {"name", "priority", "project", "baseline", "retry", "checkpoint", "telemetry", "duration_s"}
)
"""Fields of a specification by which a job takes no other time, or hardly another one; of `checkpoint`, all but
`start`: who begins at another job's step has fewer of its own."""


def digest(spec: Mapping[str, Any]) -> str:
    """Of all in a specification that says how long the job takes, as 64 hexadecimal digits: what is trained on what,
    how, with which workers over which network, for how many steps. The seed does not: rounds of a race are alike."""
    kept = {name: value for name, value in spec.items() if name not in NO_MATTER}
    checkpoint = spec.get("checkpoint")
    if isinstance(checkpoint, dict) and checkpoint.get("start") is not None:
        kept["start"] = checkpoint["start"]
    training = kept.get("training")
    if isinstance(training, dict):
        kept["training"] = {name: value for name, value in training.items() if name != "seed"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def expected(declared_s: float | None, earlier_ns: Sequence[int]) -> int | None:
    """Nanoseconds that a job is expected to run, from the newest earlier ones first; None: nobody knows. The median is
    exceeded by half of all jobs: that is no limit, and a job which runs longer goes on."""
    if declared_s is not None:
        return round(declared_s * 1e9)
    if len(earlier_ns) < LEAST:
        return None
    return round(median(earlier_ns[:NEWEST]))


def left(expected_ns: int | None, ran_ns: int) -> int | None:
    """What is left of it for a job that has run for so long and goes on from a checkpoint; None: nobody knows, also
    where it has run for longer than was expected."""
    if expected_ns is None or ran_ns >= expected_ns:
        return None
    return expected_ns - ran_ns
