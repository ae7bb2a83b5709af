"""A job's timeline in Chrome's trace format, which ui.perfetto.dev opens: processes are the job's parties, threads
their tracks.

A thread's slices must lie within one another or apart, and transfers to several peers overlap: each track has as
many threads as it has events at one time ("send", "send 2", ...).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from engine.telemetry.events import NONE, Kind, Track

EVENTS_AT_ONCE = 5_000
LANES = 1_000
"""Threads of one track have numbers from track x LANES on."""


class Trace:
    """Writes one trace. Times are in microseconds, as the format has them, from the attempt's epoch."""

    def __init__(self, layers: list[str], parties: list[str], about: dict[str, Any]) -> None:
        self._layers = layers
        self._parties = parties
        self._about = about
        self._busy_until: dict[tuple[int, int], list[int]] = {}
        """For each (party, track), when each of its threads is free."""

    def pieces(self, pages: Iterable[np.ndarray]) -> Iterator[str]:
        """The whole file of pages of events (`events.ROW`, in order of their start), a piece at a time."""
        yield f'{{"displayTimeUnit":"ms","otherData":{_json(self._about)},"traceEvents":[\n'
        first = [_named("process_name", party, 0, name) for party, name in enumerate(self._parties)]
        first += [_sorted("process_sort_index", party, 0, party) for party in range(len(self._parties))]
        separator = ""
        for entries in (first, *([entry for row in page for entry in self._entries(row)] for page in pages)):
            if entries:
                yield separator + ",\n".join(map(_json, entries))
                separator = ",\n"
        yield "\n]}\n"

    def _entries(self, row: np.void) -> Iterator[dict[str, Any]]:
        party, track, start, end = (int(row[name]) for name in ("party", "track", "start", "end"))
        lanes = self._busy_until.setdefault((party, track), [])
        lane = next((i for i, until in enumerate(lanes) if until <= start), len(lanes))
        thread = track * LANES + lane
        if lane == len(lanes):
            lanes.append(end)
            name = Track(track).name.lower()
            yield _named("thread_name", party, thread, f"{name} {lane + 1}" if lane else name)
            yield _sorted("thread_sort_index", party, thread, thread)
        lanes[lane] = end
        kind, layer = Kind(int(row["kind"])).name.lower(), int(row["layer"])
        layer_name = self._layers[layer] if 0 <= layer < len(self._layers) else None
        yield {
            "ph": "X",
            "name": f"{kind} {layer_name}" if layer_name else kind,
            "cat": kind,
            "pid": party,
            "tid": thread,
            "ts": start / 1e3,
            "dur": (end - start) / 1e3,
            "args": self._details(row, layer_name),
        }

    def _details(self, row: np.void, layer: str | None) -> dict[str, Any]:
        peer, queued = int(row["peer"]), int(row["queued"])
        details: dict[str, Any] = {"step": int(row["step"]), "layer": layer}
        details |= {
            "slice": int(row["unit"]) if row["unit"] != NONE else None,
            "bytes": int(row["bytes"]) or None,
            "peer": self._parties[peer] if 0 <= peer < len(self._parties) else None,
            "priority": int(row["priority"]) if peer != NONE else None,
            "queued_ms": round((int(row["start"]) - queued) / 1e6, 6) if queued != NONE else None,
        }
        return {name: value for name, value in details.items() if value is not None}


def _named(what: str, party: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": party, "tid": thread, "args": {"name": name}}


def _sorted(what: str, party: int, thread: int, place: int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": party, "tid": thread, "args": {"sort_index": place}}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
