"""What a layer waited for: the layers whose transfers occupied its worker's link meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from engine.telemetry.events import NONE, Kind, Track


def wire_during_waits(spans: np.ndarray, layers: Collection[int]) -> tuple[int, dict[int, int]]:
    """`(waited_ns, {layer: ns})`: how long workers waited for `layers` in SPAN rows, and for how much of
    that time each layer was on the waiting worker's link, in the direction in which it was there longer."""
    kinds, own = spans["kind"], np.isin(spans["layer"], list(layers))
    waits = spans[(kinds == Kind.WAIT) & (spans["track"] == Track.COMPUTE) & own]
    found: dict[int, int] = {}
    for kind in (Kind.SEND, Kind.RECEIVE):
        busy: Counter[int] = Counter()
        for party in np.unique(waits["party"]):
            moved = spans[(kinds == kind) & (spans["party"] == party)]
            start, end = moved["start"], moved["end"]
            for wait in waits[waits["party"] == party]:
                overlap = np.minimum(end, wait["end"]) - np.maximum(start, wait["start"])
                meanwhile = overlap > 0
                others, which = np.unique(moved["layer"][meanwhile], return_inverse=True)
                ns = np.zeros(len(others), np.int64)
                np.add.at(ns, which, overlap[meanwhile])
                busy.update(dict(zip(others.tolist(), ns.tolist(), strict=True)))
        for other, ns_busy in busy.items():
            found[other] = max(found.get(other, 0), ns_busy)
    return int((waits["end"] - waits["start"]).sum()), found


def blocker(spans: np.ndarray, layers: Collection[int], *, least: float = 0.25) -> int | None:
    """The other layer that was longest on the wire while workers waited for `layers`, which come as one; None where
    none was for at least the share `least` of the wait, or where what was waited for was there longer itself."""
    waited, found = wire_during_waits(spans, layers)
    others = {other: ns for other, ns in found.items() if other not in layers and other != NONE}
    if not waited or not others:
        return None
    worst = max(others, key=others.__getitem__)
    enough = others[worst] >= least * waited and others[worst] > sum(found.get(layer, 0) for layer in layers)
    return worst if enough else None
