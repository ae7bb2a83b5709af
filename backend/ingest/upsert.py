"""Many rows at once: insert, or merge where the key is there.

The statement is SQLAlchemy's, compiled once per table and database; the rows go to the driver as they are.
Through the ORM's parameter handling the same rows take four times as long, inside of the write transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from backend.db.models import Base


def upsert(session: Session, model: type[Base], rows: Sequence[tuple[Any, ...]], add: frozenset[str]) -> None:
    """Insert `rows` (in the order of the table's columns); where a key exists, columns in `add` grow by the
    new value and the others are replaced by it."""
    if not rows:
        return
    connection = session.connection()
    connection.exec_driver_sql(merge_statement(model, add, connection.dialect.name), list(rows))


@cache
def merge_statement(model: type[Base], add: frozenset[str], database: str) -> str:
    """The statement with the driver's own positional markers, one per column of the table, in their order."""
    table = model.__table__
    assert isinstance(table, Table)
    insert = postgresql.insert(table) if database == "postgresql" else sqlite.insert(table)
    keys = [column.name for column in table.primary_key]
    values = {
        column.name: column + insert.excluded[column.name]
        if column.name in add
        else insert.excluded[column.name]
        for column in table.columns
        if column.name not in keys
    }
    dialect: Dialect = (
        postgresql.dialect(paramstyle="format")
        if database == "postgresql"
        else sqlite.dialect(paramstyle="qmark")
    )
    names = [column.name for column in table.columns]
    # A table of keys only has nothing to merge.
    merge = (
        insert.on_conflict_do_update(index_elements=keys, set_=values)
        if values
        else insert.on_conflict_do_nothing(index_elements=keys)
    )
    compiled = merge.compile(dialect=dialect, column_keys=names)
    assert compiled.positiontup == names, "rows go to the driver as they are"
    return str(compiled)
