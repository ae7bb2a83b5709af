"""Tables as Apache Parquet files in one ZIP archive, written as it is read: memory holds a page of one table.

pyarrow is in the extra `parquet`, and imported when somebody asks for tables: the server starts without it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from backend.services.errors import Conflict
from backend.services.record_tables import JOB, TABLES, Column
from backend.services.records import Columns

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSION = "zstd"
"""Of the files' columns; the archive only holds them together."""
Pages = Iterable[tuple[str, Columns]]
"""A job's id with a page of one of its tables, job by job."""


def check() -> None:
    """Raises Conflict where the server has no pyarrow."""
    if find_spec("pyarrow") is None:
        raise Conflict(
            "Parquet files are written with pyarrow, which this server has not. Install the extra on it: "
            "pip install 'trainyard[parquet]'"
        )


def archive(tables: Mapping[str, Pages]) -> Iterator[bytes]:
    """The archive of these tables, by their names, piece by piece. `check` has passed."""
    out = _Out()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as packed:
        for name, pages in tables.items():
            with packed.open(f"{name}.parquet", "w", force_zip64=True) as member:
                for _ in _written(_Sink(member), TABLES[name], pages):
                    yield out.taken()
    yield out.taken()


def _written(sink: _Sink, columns: tuple[Column, ...], pages: Pages) -> Iterator[None]:
    """Writes a file into `sink`, and says after each page that there is more of it."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([_field(column) for column in columns])
    with pq.ParquetWriter(sink, schema, compression=COMPRESSION) as writer:
        for job_id, page in pages:
            writer.write_table(_table(schema, job_id, page))
            yield
    yield


def _field(column: Column) -> pa.Field:
    import pyarrow as pa  # noqa: PLC0415

    kinds: dict[str, pa.DataType] = {
        "bool": pa.bool_(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "text": pa.string(),
        "name": pa.dictionary(pa.int32(), pa.string()),
    }
    said = {"unit": column.unit, "meaning": column.meaning}
    return pa.field(column.name, kinds[column.kind], metadata=said)


def _table(schema: pa.Schema, job_id: str, page: Columns) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    rows = len(next(iter(page.values())))
    whole = {**page, JOB.name: [job_id] * rows}
    arrays = [_array(field.type, whole[field.name]) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, values: Any) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode().cast(kind)
    return pa.array(values, kind)


class _Out:
    """What an archive is written into: it goes on to the client, and cannot be sought in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def taken(self) -> bytes:
        """All that was written since the last time."""
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


class _Sink:
    """A file of an archive as pyarrow wants it: it asks where it is, and an archive's file does not say."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._at = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._member.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
