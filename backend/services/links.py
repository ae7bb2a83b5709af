"""Utilization per layer as series: bytes of every link, direction and layer in bins of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from backend.db import Database
from backend.figures.facts import LinkFacts, together
from backend.figures.link_bytes import LinkBytes, read_links
from backend.figures.source import Source
from backend.schemas import links as schema
from backend.schemas.stretch import LinkStretch, StretchQuery
from backend.services import stretch
from backend.services.jobs import find
from backend.services.views import attempt_of
from engine.errors import UnknownNameError, UserError
from engine.telemetry.definitions import LinkRate, link_utilization
from engine.telemetry.events import BIN_NS, LEVEL_FACTOR, LEVELS, Direction
from engine.telemetry.spread import layers_per_row

MOST_VALUES = 500_000
"""In one answer."""
DEFAULT_BINS = 500
"""At most so many are answered where none are asked for."""
NARROWER = "Ask for one link, one direction, one layer or a shorter stretch for narrower ones"
DIRECTIONS = {Direction.TX: "send", Direction.RX: "receive"}


class LinkReader:
    """Reads any attempt of any job of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, job_id: str, asked: schema.LinkQuery) -> schema.Links:
        """Raises NotFound, and UserError for an attempt or a link that there is not, half a stretch of time, and more
        values than one answer holds."""
        if (asked.from_ns is None) != (asked.to_ns is None):
            raise UserError(
                "from_ns", asked.from_ns, "needs to_ns, and to_ns needs it", "Give both or neither"
            )
        with self._database.read() as session:
            job = find(session, job_id)
            attempt_of(session, job, asked.attempt)
            source = Source(session, job_id, asked.attempt)
            links = _chosen(source, asked.link)
            directions = [way for way, name in DIRECTIONS.items() if asked.direction in (None, name)]
            layers = 1 if asked.layer is not None else len(source.job.layers)

            def values(level: int, bins: int) -> int:
                """Of so many bins: a row for each layer, or for those that share one, and one that belongs to none."""
                rows = -(-layers // (layers_per_row(layers) if level else 1)) + 1
                return rows * len(links) * len(directions) * bins

            recorded = _recorded(source, links, asked)
            wanted = DEFAULT_BINS if asked.bins is None else asked.bins
            level, (first, last) = _finest(recorded, lambda level, bins: bins <= wanted)
            count, wider = last - first + 1, None
            if asked.bins is None and values(level, count) > MOST_VALUES:
                fine = f"{count} bins of these links and layers are up to {values(level, count):,} values"
                wider = f"{fine}, and one answer holds {MOST_VALUES:,}. {NARROWER}"
                level, (first, last) = _finest(
                    recorded, lambda level, bins: values(level, bins) <= MOST_VALUES
                )
                count = last - first + 1
            if values(level, count) > MOST_VALUES:
                rule = f"up to {values(level, count)} values; one answer holds {MOST_VALUES}"
                if asked.bins is None:
                    raise UserError("link", asked.link, rule, "Ask for one link, one direction or one layer")
                raise UserError(
                    "bins", asked.bins, rule, "Ask for fewer bins, one link, one direction or one layer"
                )
            wide = BIN_NS * LEVEL_FACTOR**level
            found = read_links(source, links, level, (first, last), directions) if count else []
            series = [_series(source, one, wide, level, asked.layer) for one in found]
        return schema.Links(
            rehearsed=source.job.rehearsed,
            slowed=source.job.slowed,
            bin_ns=wide,
            start_ns=first * wide,
            bins=count,
            wider=wider,
            links=series,
            revision=job.revision,
        )

    def stretch(self, job_id: str, asked: StretchQuery) -> LinkStretch:
        """What happened in a stretch of time. Raises NotFound, and UserError for an attempt or a link that there is
        not, and for a stretch that ends before it begins."""
        with self._database.read() as session:
            job = find(session, job_id)
            attempt_of(session, job, asked.attempt)
            source = Source(session, job_id, asked.attempt)
            links = _chosen(source, asked.link)
            return stretch.read(source, links, asked.from_ns, asked.to_ns, job.revision)


def _chosen(source: Source, wanted: str | None) -> list[LinkFacts]:
    links = source.links()
    if wanted is None:
        return links
    known = {link.key: link for link in links}
    for key in wanted.split(","):
        if key not in known:
            raise UnknownNameError("link", key, "link", known)
    return [known[key] for key in wanted.split(",")]


Bins = tuple[int, int]
"""The first and the last one."""


def _recorded(source: Source, links: Sequence[LinkFacts], asked: schema.LinkQuery) -> Bins:
    """Of the stretch of time the finest bins in which anything went over these links; (0, -1) where nothing did."""
    ranges = [found for link in links if (found := source.bin_range(link, 0))]
    if not ranges:
        return 0, -1
    first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
    if asked.from_ns is not None and asked.to_ns is not None:
        first, last = max(first, asked.from_ns // BIN_NS), min(last, (asked.to_ns - 1) // BIN_NS)
    return (first, last) if first <= last else (0, -1)


def _finest(recorded: Bins, fits: Callable[[int, int], bool]) -> tuple[int, Bins]:
    """The finest level of which so many bins fit, and the first and last of them; the coarsest where none do."""
    first, last = recorded
    if last < first:
        return 0, recorded
    for level in range(LEVELS):
        size = LEVEL_FACTOR**level
        if fits(level, last // size - first // size + 1):
            break
    return level, (first // size, last // size)


def _series(source: Source, one: LinkBytes, wide: int, level: int, layer: int | None) -> schema.LinkSeries:
    job, link = source.job, one.link
    size = layers_per_row(len(job.layers)) if level else 1
    rate = link.rate
    layers = []
    for index in np.flatnonzero(one.layers.any(axis=1)).tolist():
        last = min(index + size, max(len(job.layers), index + 1)) - 1
        if layer is not None and not index <= layer <= last:
            continue
        moved = one.layers[index]
        layers.append(
            schema.LayerSeries(
                layer=together(job.layer, index, last),
                index=index,
                last_index=last,
                bytes=moved.tolist(),
                utilization=_shares(moved, wide, rate),
            )
        )
    return schema.LinkSeries(
        key=link.key,
        party=link.party,
        party_name=job.party(link.party),
        interface=link.interface,
        host=link.host,
        shared=link.shared,
        by_size=link.by_size,
        direction="send" if one.direction == Direction.TX else "receive",
        rate_bps=link.rate_bps,
        rate_source=link.rate_source,
        layers=layers,
        other_bytes=one.other.tolist(),
        utilization=_shares(one.total, wide, rate),
    )


def _shares(moved: np.ndarray, wide: int, rate: LinkRate | None) -> list[float] | None:
    shares = link_utilization(moved, wide, rate)
    return None if shares is None else [float(f"{share:.4g}") for share in shares]
