"""What a layer waited for: the layers whose transfers occupied its worker's link meanwhile."""

from __future__ import annotations

import numpy as np

from engine.telemetry.events import Kind, Track


def wire_during_waits(spans: np.ndarray, layer: int) -> tuple[int, dict[int, int]]:
    """`(waited_ns, {layer: ns})`: how long workers waited for `layer` in SPAN rows, and for how much of
    that time each layer was on the waiting worker's link, in the direction in which it was there longer."""
    waits = spans[
        (spans["kind"] == Kind.WAIT) & (spans["track"] == Track.COMPUTE) & (spans["layer"] == layer)
    ]
    found: dict[int, int] = {}
    for kind in (Kind.SEND, Kind.RECEIVE):
        busy: dict[int, int] = {}
        moved = spans[spans["kind"] == kind]
        for wait in waits:
            own = moved[moved["party"] == wait["party"]]
            overlap = np.minimum(own["end"], wait["end"]) - np.maximum(own["start"], wait["start"])
            for other in np.unique(own["layer"][overlap > 0]):
                mine = (own["layer"] == other) & (overlap > 0)
                busy[int(other)] = busy.get(int(other), 0) + int(overlap[mine].sum())
        for other, ns in busy.items():
            found[other] = max(found.get(other, 0), ns)
    return int((waits["end"] - waits["start"]).sum()), found


def blocker(spans: np.ndarray, layer: int, *, least: float = 0.25) -> int | None:
    """The other layer that was longest on the wire while workers waited for `layer`; None where none was
    for at least the share `least` of the wait, or where the waited-for layer itself was there longer."""
    waited, found = wire_during_waits(spans, layer)
    others = {other: ns for other, ns in found.items() if other not in (layer, -1)}
    if not waited or not others:
        return None
    worst = max(others, key=others.__getitem__)
    enough = others[worst] >= least * waited and others[worst] > found.get(layer, 0)
    return worst if enough else None
