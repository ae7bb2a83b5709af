"""What a batch may hold beyond what its columns' types say: nothing that a database cannot keep, or that overflows
where it is added up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.telemetry.events import Clock, Direction, Kind, Track

if TYPE_CHECKING:
    from engine.telemetry.batch import Batch

MOST = 2**53
"""No count, size or rate reaches it (9 petabytes); an interface's own counters, which nobody adds up, may."""
MOST_AHEAD = 1_000
"""A party's batches are sent one after another, each once the one before is acknowledged: the next number is the newest
one and 1. What is further ahead than this (minutes of batches) is a damaged file's name, or a stranger's guess. Less
may be, where the server's database was put back from an older copy."""
FAR_NS = 2**61
"""No time is so far from the attempt's epoch (73 years)."""
FAR_BINS = 2**31
_COUNTS = (
    ("events", ("bytes",)),
    ("steps", ("samples",)),
    ("totals", ("count", "bytes")),
    ("bins", ("bytes",)),
    ("staleness", ("staleness", "count")),
)
_TIMES = (
    ("events", ("queued", "start", "end")),
    ("steps", ("start", "end", "exposed", "compute", "input")),
    ("metrics", ("time",)),
    ("samples", ("time",)),
    ("totals", ("busy", "exposed")),
)


def problems(batch: Batch) -> Iterator[str]:
    """What is wrong with it, in words; nothing wrong is no words."""
    for table, column, count in (
        ("metrics", "name", len(batch.metrics)),
        ("samples", "link", len(batch.links)),
        ("bins", "link", len(batch.links)),
        ("bins", "direction", len(Direction)),
        ("events", "kind", len(Kind)),
        ("events", "track", len(Track)),
        ("events", "clock", len(Clock)),
        ("totals", "kind", len(Kind)),
        ("totals", "track", len(Track)),
        ("staleness", "worker", 2**15),
    ):
        yield from _outside(batch, table, column, 0, count)
    for table in ("bins", "staleness"):
        yield from _outside(batch, table, "bin", -FAR_BINS, FAR_BINS)
    for columns, low, high in ((_COUNTS, 0, MOST), (_TIMES, -FAR_NS, FAR_NS)):
        for table, names in columns:
            for column in names:
                yield from _outside(batch, table, column, low, high)
    for link in batch.links:
        if link.rate_bps is not None and not 0 < link.rate_bps < MOST:
            yield f"link {link.interface[:80]!r}: {link.rate_bps} bits per second"
    for what, name, longest in (
        *(("metric", name, 100) for name in batch.metrics),
        *(("interface", link.interface, 64) for link in batch.links),
        *(("host", link.host, 255) for link in batch.links),
        *(("rate source", link.rate_source, 16) for link in batch.links),
    ):
        if not 0 < len(name) <= longest:
            yield f"{what} name {name[:80]!r}: must have 1 to {longest} characters"
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            yield f"{what} name {name[:80]!r}: has characters that a database cannot hold"


def _outside(batch: Batch, table: str, column: str, low: int, high: int) -> Iterator[str]:
    values = batch.table(table)[column]
    if len(values) and not (values.min() >= low and values.max() < high):
        found = values.min() if values.min() < low else values.max()
        yield f"table {table!r}: {column} = {found} out of range, must be from {low} to {high - 1}"
