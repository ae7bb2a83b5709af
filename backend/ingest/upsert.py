"""Many rows at once: insert, or merge where the key is there.

The statement is SQLAlchemy's, compiled once per table and database; the rows go to the driver as they are.
Through the ORM's parameter handling the same rows take four times as long, inside of the write transaction.

SQLite gets row after row: its statements are calls in this process. To PostgreSQL each row would be a message, so there
many rows are copied (`copied.py`) beside the table and merged into it by one statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Dialect, Table, column, select, table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from backend.db.models import Base

COPIED_FROM = 20
"""So many rows are copied; of fewer, one statement each takes less time than the three that a copy needs."""


def upsert(session: Session, model: type[Base], rows: Sequence[tuple[Any, ...]], add: frozenset[str]) -> None:
    """Insert `rows` (in the order of the table's columns); where a key exists, columns in `add` grow by the
    new value and the others are replaced by it. Of rows with one key the later ones are merged into the earlier."""
    if not rows:
        return
    connection = session.connection()
    database = connection.dialect.name
    if database == "postgresql" and len(rows) >= COPIED_FROM and _keys_differ(model, rows):
        from backend.ingest import copied  # noqa: PLC0415 - its driver is an extra

        source = copied.copy(connection, _table(model), rows)
        connection.exec_driver_sql(merge_statement(model, add, database, source))
    else:
        connection.exec_driver_sql(merge_statement(model, add, database), list(rows))


def _keys_differ(model: type[Base], rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether no two rows have one key: a statement of PostgreSQL's may touch no row twice."""
    names = [part.name for part in _table(model).columns]
    key = itemgetter(*(names.index(part.name) for part in _table(model).primary_key))
    return len(set(map(key, rows))) == len(rows)


def _table(model: type[Base]) -> Table:
    found = model.__table__
    assert isinstance(found, Table)
    return found


@cache
def merge_statement(model: type[Base], add: frozenset[str], database: str, source: str | None = None) -> str:
    """The statement with the driver's own positional markers, one per column of the table, in their order; or that
    which merges all rows of the table `source`, which has the same columns."""
    into = _table(model)
    insert = postgresql.insert(into) if database == "postgresql" else sqlite.insert(into)
    keys = [part.name for part in into.primary_key]
    names = [part.name for part in into.columns]
    if source is not None:
        insert = insert.from_select(names, select(*(table(source, *map(column, names)).columns)))
    values = {
        part.name: part + insert.excluded[part.name] if part.name in add else insert.excluded[part.name]
        for part in into.columns
        if part.name not in keys
    }
    dialect: Dialect = (
        postgresql.dialect(paramstyle="format")
        if database == "postgresql"
        else sqlite.dialect(paramstyle="qmark")
    )
    # A table of keys only has nothing to merge.
    merge = (
        insert.on_conflict_do_update(index_elements=keys, set_=values)
        if values
        else insert.on_conflict_do_nothing(index_elements=keys)
    )
    compiled = merge.compile(dialect=dialect, column_keys=names if source is None else None)
    assert (compiled.positiontup or []) == (names if source is None else []), (
        "rows go to the driver as they are"
    )
    return str(compiled)
