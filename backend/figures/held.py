"""What memory mechanisms did in a worker's newest step, by layer, out of the totals of all events."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.db.models import LayerTotal
from engine.telemetry.events import Kind, Track

LOOKED_AT = 2_000
"""Newest steps: what a layer saves is counted in every step, or about once a second."""


@dataclass(kw_only=True)
class Held:
    """Of one layer, on one worker."""

    step: int
    """The newest one that anything is known of."""
    saved: int | None = None
    """Bytes that were in memory for backward when that began, of one pass; None: not counted."""
    left: int = 0
    """Bytes that left for a second tier of memory in a step."""
    again: int = 0
    """Bytes that a second forward pass saved in a step, which were not there when backward began."""
    again_ns: int = 0
    """How long it took."""
    waited_ns: int = 0
    """How long nothing was computed until what had left was back."""


def by_layer(session: Session, attempt: int, last: int) -> dict[tuple[int, int], Held]:
    """By party and layer. `last`: the last step that any worker ended."""
    row = LayerTotal
    within = (row.attempt_id == attempt, row.step > last - LOOKED_AT, row.step <= last)
    kinds = (Kind.SAVED, Kind.SWAP_OUT, Kind.SWAP_IN, Kind.RECOMPUTE)
    newest = (
        select(row.party, row.kind, func.max(row.step).label("step"))
        .where(*within, row.kind.in_(kinds))
        .group_by(row.party, row.kind)
        .subquery()
    )
    query = (
        select(row.party, row.layer, row.kind, row.track, row.step, row.count, row.busy_ns, row.bytes)
        .join(
            newest, (row.party == newest.c.party) & (row.kind == newest.c.kind) & (row.step == newest.c.step)
        )
        .where(*within)
    )
    found: dict[tuple[int, int], Held] = {}
    for party, layer, kind, track, step, count, busy, size in session.execute(query):
        held = found.setdefault((party, layer), Held(step=step))
        held.step = max(held.step, step)
        if kind == Kind.SAVED:
            held.saved = int(size) // int(count)
        elif kind == Kind.SWAP_OUT:
            held.left += int(size)
        elif kind == Kind.RECOMPUTE:
            held.again, held.again_ns = held.again + int(size), held.again_ns + int(busy)
        elif track == Track.COMPUTE:
            held.waited_ns += int(busy)
    return found
