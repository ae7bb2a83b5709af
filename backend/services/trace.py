"""A job's timeline in Chrome's trace format, which ui.perfetto.dev opens: processes are the job's parties, threads
their tracks.

A thread's slices must lie within one another or apart, and transfers to several peers overlap: each track has as
many threads as it has events at one time ("send", "send 2", ...).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from backend.services.trace_flows import Ends, Flows
from engine.telemetry.events import NONE, Clock, Kind, Track

EVENTS_AT_ONCE = 20_000
LANES = 1_000
"""Threads of one track have numbers from track x LANES on."""


class _Event(NamedTuple):
    """A row of `events.ROW`, field by field in its order."""

    party: int
    sequence: int
    place: int
    step: int
    layer: int
    unit: int
    kind: int
    track: int
    peer: int
    priority: int
    queued: int
    start: int
    end: int
    bytes: int
    clock: int


class Trace:
    """Writes one trace. Times are in microseconds, as the format has them, from the attempt's epoch.

    Events are written as text, piece by piece: a dictionary and an encoder for each take three times as long, of an
    interpreter that telemetry needs, too.
    """

    def __init__(
        self,
        layers: Sequence[str],
        titles: Sequence[str],
        parties: Sequence[str],
        about: dict[str, Any],
        buckets: Mapping[int, str] = {},
    ) -> None:
        """`titles`: what people read as the layers' names; `buckets`: as those of units of several layers."""
        self._about = about
        self._parties = parties
        self._layers_text = list(map(json.dumps, layers))
        self._parties_text = list(map(json.dumps, parties))
        self._names = [
            [json.dumps(f"{kind.name.lower()} {title}") for title in titles] for kind in sorted(Kind)
        ]
        self._kinds = [kind.name.lower() for kind in sorted(Kind)]
        self._buckets = buckets
        self._clocks = [clock.name.lower() for clock in sorted(Clock)]
        self._flows = Flows()
        self._busy_until: dict[tuple[int, int], list[int]] = {}
        """For each (party, track), when each of its threads is free."""

    def pieces(self, pages: Iterable[np.ndarray]) -> Iterator[str]:
        """The whole file of pages of events (`events.ROW`, in order of their start), a piece at a time."""
        yield f'{{"displayTimeUnit":"ms","otherData":{_json(self._about)},"traceEvents":[\n'
        first = [_named("process_name", party, 0, name) for party, name in enumerate(self._parties)]
        first += [_sorted("process_sort_index", party, 0, party) for party in range(len(self._parties))]
        later = (
            [entry for row in page.tolist() for entry in self._entries(_Event._make(row))] for page in pages
        )
        separator = ""
        rest = (list(flows.rest()) for flows in (self._flows,))  # asked for when all pages are written
        for entries in chain([first], later, rest):
            if entries:
                yield separator + ",\n".join(entries)
                separator = ",\n"
        yield "\n]}\n"

    def _entries(self, event: _Event) -> Iterator[str]:
        lanes = self._busy_until.setdefault((event.party, event.track), [])
        lane = next((i for i, until in enumerate(lanes) if until <= event.start), len(lanes))
        thread = event.track * LANES + lane
        if lane == len(lanes):
            lanes.append(event.end)
            name = Track(event.track).name.lower()
            yield _named("thread_name", event.party, thread, f"{name} {lane + 1}" if lane else name)
            yield _sorted("thread_sort_index", event.party, thread, thread)
        lanes[lane] = event.end
        kind = self._kinds[event.kind]
        named = 0 <= event.layer < len(self._layers_text)
        name = self._names[event.kind][event.layer] if named else f'"{kind}"'
        if event.unit in self._buckets:
            name = json.dumps(f"{kind} {self._buckets[event.unit]}")
        yield (
            f'{{"ph":"X","name":{name},"cat":"{kind}","pid":{event.party},"tid":{thread},'
            f'"ts":{event.start / 1e3},"dur":{(event.end - event.start) / 1e3},"args":{{{self._details(event)}}}}}'
        )
        ends = Ends(
            event.party, event.step, event.layer, event.unit, event.kind, event.track, event.peer, event.queued,
            event.start, event.end, thread,
        )  # fmt: skip
        yield from self._flows.of(ends)

    def _details(self, event: _Event) -> str:
        details = [f'"step":{event.step}']
        if 0 <= event.layer < len(self._layers_text):
            details.append(f'"layer":{self._layers_text[event.layer]}')
        if event.unit != NONE:
            details.append(f'"slice":{event.unit}')
        if event.bytes:
            details.append(f'"bytes":{event.bytes}')
        if 0 <= event.peer < len(self._parties_text):
            details.append(f'"peer":{self._parties_text[event.peer]}')
        if event.peer != NONE:
            details.append(f'"priority":{event.priority}')
        if event.queued != NONE:
            details.append(f'"queued_ms":{(event.start - event.queued) / 1e6}')
        if event.track == Track.COMPUTE:
            details.append(f'"clock":"{self._clocks[event.clock]}"')
        return ",".join(details)


def _named(what: str, party: int, thread: int, name: str) -> str:
    return _json({"ph": "M", "name": what, "pid": party, "tid": thread, "args": {"name": name}})


def _sorted(what: str, party: int, thread: int, place: int) -> str:
    return _json({"ph": "M", "name": what, "pid": party, "tid": thread, "args": {"sort_index": place}})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
