"""Rows into PostgreSQL by COPY: into a temporary table of this session, from which one statement merges them.

**Rule.** COPY knows no conflicts, and a key of telemetry may be there already (a step's totals come in two batches). So
the rows go into a copy of the table without keys or indexes, whose rows end with the transaction, and from there by
`INSERT ... SELECT ... ON CONFLICT`: what is stored is the same as row after row. Values travel as text, which the
database reads by the column's own rule: in the binary format the driver cuts a number that is too large, in silence.

**Cost.** Three statements for each table and batch, whatever the number of rows. **Loses** for few rows
(`upsert.COPIED_FROM`), and where sessions are made anew for every transaction, which then make the temporary tables
anew. **Source.** PostgreSQL's manual, "Populating a Database".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection, Table, exc


def copy(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> str:
    """Put `rows` (in the order of the table's columns) beside `table`; the name of where they are until the transaction
    ends. Raises what SQLAlchemy raises for the driver's errors."""
    name = f"staged_{table.name}"
    statement = f"COPY {name} ({', '.join(column.name for column in table.columns)}) FROM STDIN"
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (LIKE {table.name}) ON COMMIT DELETE ROWS"
    )
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    try:
        with raw.cursor() as cursor, cursor.copy(statement.encode()) as into:
            for row in rows:
                into.write_row(row)
    except psycopg.Error as error:
        wrapped = exc.DBAPIError.instance(statement, None, error, psycopg.Error, dialect=connection.dialect)
        raise wrapped from error
    return name
