"""A stretch of time: which layer moved how much over which link, and which exposed waits fall into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from backend.figures.facts import LinkFacts, together
from backend.figures.link_bytes import LinkBytes, read_links
from backend.figures.shared_units import SharedUnits, divided
from backend.figures.source import SPAN, Source
from backend.figures.why import waits_of
from backend.schemas import stretch as schema
from engine.errors import UserError
from engine.telemetry.definitions import link_utilization
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS, NO_LAYER, Direction
from engine.telemetry.spread import layers_per_row

MOST_BINS = 2_000
MOST_ROWS = 170_000
"""Rows of bins that one answer reads."""
MOST_EVENTS = 300_000
"""No answer decodes more: waits of longer stretches are not counted."""
BEYOND = "other"
DIRECTIONS = {Direction.TX: "send", Direction.RX: "receive"}


class Waited(NamedTuple):
    """Exposed waits for one layer."""

    waits: int
    ns: int
    """Of them, in the stretch."""


def waits_within(
    spans: np.ndarray, from_ns: int, to_ns: int, units: SharedUnits
) -> tuple[dict[int, Waited], Waited]:
    """The exposed waits among SPAN rows that fall into a stretch, by layer and all together; each counts with its part
    in it. One for a unit of several layers is a wait for each of them, and its time is divided by their bytes."""
    waits = waits_of(spans)
    inside = np.minimum(waits["end"], to_ns) - np.maximum(waits["start"], from_ns)
    waits, inside = waits[inside > 0], inside[inside > 0]
    found: dict[int, Waited] = {}

    def add(layer: int, count: int, ns: int) -> None:
        before = found.get(layer, Waited(0, 0))
        found[layer] = Waited(before.waits + count, before.ns + ns)

    shared = np.isin(waits["unit"], list(units.parts))
    for layer in np.unique(waits["layer"][~shared]).tolist():
        own = inside[(waits["layer"] == layer) & ~shared]
        add(layer, len(own), int(own.sum()))
    for unit in np.unique(waits["unit"][shared]).tolist():
        own = inside[waits["unit"] == unit]
        layers, ends = units.parts[unit]
        for layer, ns in zip(layers.tolist(), divided(own.sum(keepdims=True), ends)[0].tolist(), strict=True):
            add(layer, len(own), ns)
    return found, Waited(len(waits), int(inside.sum()))


def layers_of(
    panels: Sequence[LinkBytes],
    waits: dict[int, Waited],
    length_ns: int,
    size: int,
    name: Callable[[int], str],
    title: Callable[[int], str],
) -> list[schema.StretchLayer]:
    """A row for each layer that moved anything or was waited for; `size` neighbouring layers share one, and what is of
    no layer comes last. `length_ns`: of the stretch. `name`: a layer's, by its index; `title`: the same as people
    read it."""
    count = max([max(waits, default=NO_LAYER) + 1, *(len(one.layers) for one in panels)])
    rows = []
    for first in [*range(0, count, size), NO_LAYER]:
        last = first if first == NO_LAYER else min(first + size, count) - 1
        moved = []
        for place, one in enumerate(panels):
            values = one.other if first == NO_LAYER else one.layers[first : last + 1]
            if total := int(values.sum()):
                moved.append(
                    schema.StretchBytes(link=place, bytes=total, share=_share(total, length_ns, one.link))
                )
        own = [waits[layer] for layer in range(first, last + 1) if layer in waits]
        if moved or own:
            rows.append(
                schema.StretchLayer(
                    layer=BEYOND if first == NO_LAYER else together(name, first, last),
                    layer_name=BEYOND if first == NO_LAYER else together(title, first, last),
                    index=first,
                    last_index=last,
                    moved=moved,
                    waits=sum(one.waits for one in own),
                    waited_ns=sum(one.ns for one in own),
                )
            )
    return rows


def read(
    source: Source, links: Sequence[LinkFacts], from_ns: int, to_ns: int, revision: int
) -> schema.LinkStretch:
    """Everything of a stretch of the source's attempt. Raises UserError for one that ends before it begins."""
    if to_ns <= from_ns:
        raise UserError("to_ns", to_ns, f"must be after from_ns = {from_ns}", "Swap them")
    level, (first, last) = _bins(source, links, from_ns, to_ns)
    wide = BIN_NS * LEVEL_FACTOR**level
    since, until = first * wide, (last + 1) * wide
    job, panels = source.job, read_links(source, links, level, (first, last))
    steps = source.steps_between(since, until)
    kept = np.intersect1d(source.detailed_steps(), np.arange(steps[0], steps[1] + 1))
    spans_too_many = source.count_events(since, until) > MOST_EVENTS
    spans = np.empty(0, SPAN) if spans_too_many else source.spans(since, until)
    waits, waited = waits_within(spans, since, until, job.units)
    return schema.LinkStretch(
        rehearsed=job.rehearsed,
        slowed=job.slowed,
        from_ns=since,
        to_ns=until,
        bin_ns=wide,
        links=[
            schema.StretchLink(
                key=one.link.key,
                party_name=job.party(one.link.party),
                interface=one.link.interface,
                host=one.link.host,
                shared=one.link.shared,
                by_size=one.link.by_size,
                direction=DIRECTIONS[one.direction],
                rate_bps=one.link.rate_bps,
                rate_source=one.link.rate_source,
                bytes=int(one.total.sum()),
                share=_share(int(one.total.sum()), until - since, one.link),
                most=_share(int(one.total.max()), wide, one.link),
            )
            for one in panels
        ],
        layers=layers_of(
            panels,
            waits,
            until - since,
            layers_per_row(len(job.layers)) if level else 1,
            job.layer,
            job.title,
        ),
        waits=waited.waits,
        waited_ns=waited.ns,
        steps_without_events=steps[1] - steps[0] + 1 - (0 if spans_too_many else len(kept)),
        revision=revision,
    )


def _bins(
    source: Source, links: Sequence[LinkFacts], from_ns: int, to_ns: int
) -> tuple[int, tuple[int, int]]:
    """The finest level at which a stretch is no more than one answer reads, and its first and last bin there. At the
    coarsest one a longer stretch is cut to what was recorded."""
    for level in range(LEVELS):
        wide = BIN_NS * LEVEL_FACTOR**level
        first, last = from_ns // wide, (to_ns - 1) // wide
        if last - first < MOST_BINS and _readable(source, links, level, (first, last)):
            return level, (first, last)
    return level, _recorded(source, links, level, (first, last))


def _recorded(
    source: Source, links: Sequence[LinkFacts], level: int, bins: tuple[int, int]
) -> tuple[int, int]:
    """Of these bins those of the time in which anything went: memory is taken for each, and somebody may ask for
    centuries."""
    ranges = [found for link in links if (found := source.bin_range(link, level))]
    if not ranges:
        return bins
    first = max(bins[0], min(low for low, _ in ranges))
    return first, max(first, min(bins[1], max(high for _, high in ranges)))


def _readable(source: Source, links: Sequence[LinkFacts], level: int, bins: tuple[int, int]) -> bool:
    left = MOST_ROWS
    for link in links:
        left -= source.count_bins(link, level, *bins, left + 1)
        if left < 0:
            return False
    return True


def _share(count: int, length_ns: int, link: LinkFacts) -> float | None:
    share = link_utilization(np.array([count]), length_ns, link.rate)
    return None if share is None else float(f"{share[0]:.4g}")
