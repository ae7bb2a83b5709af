"""One batch as bytes: what a party recorded since its last batch, as compressed columns.

    "TYB1"  magic and version            4 bytes
    sha256  of all that follows         32 bytes
    length  of the header                4 bytes, little-endian
    header  JSON: who, when, and each table's name, rows and columns (name, dtype)
    columns zlib-compressed, one after another

`batch_columns.py` says how a table is packed, and how it is read where another version wrote it. The server does not
trust a batch: every length, name and dtype is checked.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine.telemetry.batch_columns import TABLES, BatchError, Stored, described, pack, stored, unpack
from engine.telemetry.batch_limits import MOST, problems

__all__ = ["TABLES", "Batch", "BatchError", "LinkInfo", "check", "declared", "decode", "encode"]
MAGIC = b"TYB1"
MAX_BODY_BYTES = 64 * 2**20
"""Of a whole batch, as it travels."""
MAX_HEADER_BYTES = 4 * 2**20
MAX_RAW_BYTES = 256 * 2**20
"""Of all columns after decompression."""
LEVEL = 1
"""zlib's fastest: level 6 gains little on shuffled columns and costs several times as much."""
_prefix = struct.Struct("<4s32sI")


@dataclass(frozen=True, kw_only=True)
class LinkInfo:
    """A link that a party reports on."""

    interface: str
    host: str
    rate_bps: int | None
    """Bits per second per direction; None where it is not known."""
    rate_source: str
    """shaped, interface, declared or unknown."""
    shared: bool = False
    """What is not the job's uses it, too: its counters are those of the whole machine."""
    by_size: bool = False
    """Collectives of torch.distributed use it: their bytes are told apart by the layers' sizes in what was sent."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one party recorded since its batch before."""

    attempt: int
    party: int
    name: str
    sequence: int
    """0, 1, 2, ... per party, without gaps."""
    metrics: tuple[str, ...] = ()
    """Metric names; METRIC rows give an index into it."""
    links: tuple[LinkInfo, ...] = ()
    """Links; LINK_SAMPLE and LINK_BIN rows give an index into it."""
    dropped: int = 0
    """Events whose detail should have been kept and was given up since the batch before; the totals have them."""
    dropped_steps: tuple[int, int] = (-1, -1)
    """First and last step of those."""
    final: bool = False
    """The party closed its recorder in an orderly way: its last batch."""
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    """events, steps, metrics, samples, totals, bins, staleness; an absent one is empty."""

    def table(self, name: str) -> np.ndarray:
        return self.tables.get(name, np.empty(0, TABLES[name]))

    @property
    def step_range(self) -> tuple[int, int]:
        """First and last step of the detailed events, (-1, -1) where there are none."""
        return _steps_of(self.table("events"))

    @property
    def time_range(self) -> tuple[int, int]:
        """First start and last end of the detailed events, (-1, -1) where there are none."""
        events = self.table("events")
        return (int(events["start"].min()), int(events["end"].max())) if len(events) else (-1, -1)

    def without_detail(self) -> Batch:
        """The same, its events given up and its raw samples left out: the totals and bins have them."""
        events = self.table("events")
        ranges = [
            steps
            for steps in (self.dropped_steps, _steps_of(events[events["step"] >= 0]))
            if steps != (-1, -1)
        ]
        return replace(
            self,
            dropped=self.dropped + len(events),
            dropped_steps=(min(s[0] for s in ranges), max(s[1] for s in ranges)) if ranges else (-1, -1),
            tables={name: rows for name, rows in self.tables.items() if name not in {"events", "samples"}},
        )


def _steps_of(events: np.ndarray) -> tuple[int, int]:
    step = events["step"]
    return (int(step.min()), int(step.max())) if len(step) else (-1, -1)


def encode(batch: Batch) -> bytes:
    """The batch as bytes. Raises KeyError for a table that no batch has."""
    parts: list[bytes] = []
    tables: list[dict[str, Any]] = []
    for name, dtype in TABLES.items():
        rows = batch.table(name)
        if not len(rows):
            continue
        assert rows.dtype == dtype, (name, rows.dtype)
        tables.append({"name": name, "rows": len(rows), "columns": described(dtype)})
        parts.extend(pack(rows))
    raw = b"".join(parts)
    header = {
        "attempt": batch.attempt,
        "party": batch.party,
        "name": batch.name,
        "sequence": batch.sequence,
        "steps": batch.step_range,
        "times": batch.time_range,
        "metrics": batch.metrics,
        "links": [vars(link) for link in batch.links],
        "dropped": batch.dropped,
        "dropped_steps": batch.dropped_steps,
        "final": batch.final,
        "tables": tables,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    content = text + zlib.compress(raw, LEVEL)
    digest = _digest(len(text), content)
    return _prefix.pack(MAGIC, digest, len(text)) + content


def check(body: bytes) -> str:
    """The content hash (hexadecimal) of a whole batch. Raises BatchError for a torn or changed one."""
    return _open(body)[0]


def declared(body: bytes) -> dict[str, int]:
    """Bytes of each table, unpacked, as the header has them. Nothing is unpacked; `decode` unpacks no more than that.
    Raises BatchError for a header that is none, or that declares more than a batch may hold."""
    _, header, _ = _open(body)
    return {table.name: table.bytes for table in _announced(header)}


def decode(body: bytes) -> Batch:
    """The batch in `body`. Raises BatchError, saying what is wrong, for anything else."""
    _, header, compressed = _open(body)
    announced = _announced(header)
    try:
        links = tuple(
            LinkInfo(
                interface=str(link["interface"]),
                host=str(link["host"]),
                rate_bps=None if link["rate_bps"] is None else int(link["rate_bps"]),
                rate_source=str(link["rate_source"]),
                shared=bool(link.get("shared", False)),  # older batches say neither this
                by_size=bool(link.get("by_size", False)),  # nor that
            )
            for link in header["links"]
        )
        fields: dict[str, Any] = {
            "attempt": _whole(header["attempt"]),
            "party": _whole(header["party"]),
            "name": str(header["name"]),
            "sequence": _whole(header["sequence"]),
            "metrics": tuple(str(name) for name in header["metrics"]),
            "dropped": _whole(header["dropped"]),
            "dropped_steps": _pair(header.get("dropped_steps", (-1, -1))),  # batches of 0.1 do not say
            "final": bool(header["final"]),
        }
    except (KeyError, TypeError, ValueError, OverflowError) as error:  # the last: of Infinity
        raise BatchError(f"header: {type(error).__name__}: {error}") from None
    if not all(-1 <= step < 2**31 for step in fields["dropped_steps"]):
        raise BatchError(f"header: dropped steps {fields['dropped_steps']}: out of range")
    for name, limit in (("party", 2**15), ("sequence", 2**31), ("dropped", MOST)):
        if not 0 <= fields[name] < limit:
            raise BatchError(f"header: {name} {fields[name]}: out of range, from 0 to {limit - 1}")
    batch = Batch(**fields, links=links, tables=_tables(announced, compressed))
    for problem in problems(batch):
        raise BatchError(problem)
    return batch


def _whole(value: Any) -> int:
    """Raises TypeError for anything else, `true` included."""
    if type(value) is not int:
        raise TypeError(f"{str(value)[:40]!r} is not a whole number")
    return value


def _open(body: bytes) -> tuple[str, dict[str, Any], bytes]:
    if len(body) < _prefix.size:
        raise BatchError(f"{len(body)} bytes are too few for a batch: truncated, or no batch")
    magic, digest, length = _prefix.unpack_from(body)
    if magic != MAGIC:
        raise BatchError(f"starts with {magic!r}, a batch of this version starts with {MAGIC!r}")
    content = body[_prefix.size :]
    if length > MAX_HEADER_BYTES:
        raise BatchError(f"a header of {length} bytes: more than {MAX_HEADER_BYTES}. Send smaller batches")
    if digest != _digest(length, content) or length > len(content):
        raise BatchError(
            f"the content hash does not match ({len(body)} bytes): truncated or changed on its way"
        )
    try:
        header = json.loads(content[:length])
    except (ValueError, RecursionError) as error:
        raise BatchError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BatchError("the header is not a JSON object")
    return digest.hex(), header, content[length:]


def _pair(value: Any) -> tuple[int, int]:
    first, last = value
    return int(first), int(last)


def _digest(length: int, content: bytes) -> bytes:
    return hashlib.sha256(length.to_bytes(4, "little") + content).digest()


def _announced(header: dict[str, Any]) -> list[Stored]:
    """Each table, in the order in which they lie."""
    found = list(stored(header))
    total = sum(table.bytes for table in found)
    if total > MAX_RAW_BYTES:
        raise BatchError(f"{total} bytes of columns: more than {MAX_RAW_BYTES}. Send smaller batches")
    return found


def _tables(announced: list[Stored], compressed: bytes) -> dict[str, np.ndarray]:
    total = sum(table.packed_bytes for table in announced)
    unpacker = zlib.decompressobj()
    try:
        raw = memoryview(unpacker.decompress(compressed, total + 1))
    except zlib.error as error:
        raise BatchError(f"the columns do not decompress: {error}") from None
    if len(raw) != total:
        raise BatchError(f"the columns decompress to {len(raw)} bytes or more, the header says {total}")
    tables, offset = {}, 0
    for table in announced:
        tables[table.name] = unpack(table, raw[offset : offset + table.packed_bytes])
        offset += table.packed_bytes
    return tables
