"""The tables of a batch, column by column: how they are packed, and which of those that lie there are taken.

Columns are found by name. One that this version added is filled with its default where the batch is older; one that a
newer version added is skipped, since its type says how long it is. So a batch stays readable whatever is added later.
What no version wrote is refused: a column that every version has and this batch lacks, another type, one twice.

Neighbouring rows are alike, so integer columns travel as differences from the row before (`queued` and `end`
as differences from `start`), and byte by byte: all lowest bytes, then all second ones, ...; zlib then finds
long runs of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.telemetry.events import EVENT, LINK_BIN, LINK_SAMPLE, METRIC, STALENESS, STEP, TOTAL

TABLES = {
    "events": EVENT,
    "steps": STEP,
    "metrics": METRIC,
    "samples": LINK_SAMPLE,
    "totals": TOTAL,
    "bins": LINK_BIN,
    "staleness": STALENESS,
}
ADDED: dict[str, dict[str, int | float]] = {"events": {"clock": 0}}
"""By table: columns that its first version did not have, and what they are in a batch without them. A new column needs
its line here: batches that are stored do not have it."""
MAX_COLUMNS = 64
"""Of one table: more are no version's."""
_KNOWN_TYPES = {
    np.dtype(code).str: np.dtype(code) for code in ("i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
}  # fmt: skip
"""A column that is skipped has one of these, too: what NumPy makes of other words may be of any size."""
_FROM_START = ("queued", "end")


class BatchError(ValueError):
    """These bytes are no batch: what is wrong with them."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One table as it lies in a batch."""

    name: str
    rows: int
    columns: tuple[tuple[str, np.dtype], ...]
    """In the order in which they lie."""

    @property
    def packed_bytes(self) -> int:
        """Of all its columns, skipped ones as well."""
        return self.rows * sum(dtype.itemsize for _, dtype in self.columns)

    @property
    def bytes(self) -> int:
        """As it lies, or as it is here: whichever is more."""
        return max(self.packed_bytes, self.rows * TABLES[self.name].itemsize)


def described(dtype: np.dtype) -> list[list[str]]:
    """A table's columns as a header has them."""
    return [[name, dtype[name].str] for name in dtype.names or ()]


def stored(header: dict[str, Any]) -> Iterator[Stored]:
    """Each table that a header announces, in the order in which they lie. Raises BatchError."""
    try:
        tables = [(str(t["name"]), int(t["rows"]), t["columns"]) for t in header["tables"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BatchError(f"header: {type(error).__name__}: {error}") from None
    seen = set[str]()
    for name, rows, columns in tables:
        if name not in TABLES or name in seen:
            raise BatchError(f"table {name!r}: unknown, or there twice. Known: {', '.join(TABLES)}")
        seen.add(name)
        if rows < 0:
            raise BatchError(f"table {name!r}: {rows} rows")
        yield Stored(name=name, rows=rows, columns=tuple(_columns(name, columns)))


def _columns(table: str, columns: Any) -> Iterator[tuple[str, np.dtype]]:
    """Name and type of each. Raises BatchError for columns that no version writes."""
    wrong = f"table {table!r}: its columns are not those of this version, or a newer or older one: "
    if not isinstance(columns, list) or len(columns) > MAX_COLUMNS:
        raise BatchError(f"{wrong}no list of at most {MAX_COLUMNS}")
    own, seen = TABLES[table], set[str]()
    for column in columns:
        match column:
            case [str(name), str(code)] if code in _KNOWN_TYPES and name not in seen:
                pass
            case _:
                raise BatchError(
                    f"{wrong}{column!r:.100} has no type of {', '.join(_KNOWN_TYPES)}, or is there twice"
                )
        if name in (own.names or ()) and _KNOWN_TYPES[code] != own[name]:
            raise BatchError(f"{wrong}{name} is {code} there, and {own[name].str} here")
        seen.add(name)
        yield name, _KNOWN_TYPES[code]
    for name in own.names or ():
        if name not in seen and name not in ADDED.get(table, {}):
            raise BatchError(f"{wrong}{name} is missing, which every version has")


def pack(rows: np.ndarray) -> Iterator[bytes]:
    """Each column of a table, one after another."""
    for column in rows.dtype.names or ():
        values = np.ascontiguousarray(rows[column])
        if values.dtype.kind in "iu":
            if column in _FROM_START and "start" in (rows.dtype.names or ()):
                values = values - rows["start"]
            values = np.diff(values, prepend=values.dtype.type(0))
        yield values.view(np.uint8).reshape(len(values), -1).T.tobytes()


def unpack(table: Stored, raw: memoryview) -> np.ndarray:
    """The table's rows, out of its packed columns."""
    rows = np.zeros(table.rows, TABLES[table.name])
    for name, default in ADDED.get(table.name, {}).items():
        rows[name] = default
    offset, places = 0, dict[str, int]()
    for name, dtype in table.columns:
        places[name] = offset
        offset += dtype.itemsize * table.rows
    for name in sorted(
        rows.dtype.names or (), key=lambda column: column in _FROM_START
    ):  # these need `start`
        if name in places:
            start = places[name]
            _unpack(rows, name, raw[start : start + rows.dtype[name].itemsize * table.rows])
    return rows


def _unpack(rows: np.ndarray, column: str, raw: memoryview) -> None:
    dtype = rows.dtype[column]
    planes = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, len(rows))
    values = np.ascontiguousarray(planes.T).view(dtype)[:, 0] if len(rows) else np.empty(0, dtype)
    if dtype.kind in "iu":
        values = np.cumsum(values, dtype=dtype)
        if column in _FROM_START and "start" in (rows.dtype.names or ()):
            values = values + rows["start"]
    rows[column] = values
