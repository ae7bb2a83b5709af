"""Telemetry by layer and by link lies in partitions on PostgreSQL, each of SPAN attempts: to remove it is to drop
tables, where rows would be deleted, written to the log and cleared up one by one. Attempts' numbers grow with time, so
old ones lie together.

A partition is there before its first attempt is: whoever adds an attempt makes it, in the same transaction. On SQLite
there are none.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.orm import Mapper

from backend.db.models import Attempt, Base

SPAN = 100
"""Attempts of a partition; the first one has also those that were there before partitions were."""
_NAME = re.compile(r"_p\d+$")


def parted() -> list[str]:
    """The tables that have partitions on PostgreSQL."""
    tables = Base.metadata.tables
    return [name for name in tables if tables[name].dialect_options["postgresql"]["partition_by"]]


def is_partition(table: str) -> bool:
    """Whether a table of that name is a part of another one."""
    return _NAME.sub("", table) in parted() and _NAME.search(table) is not None


def first_of(attempt_id: int) -> int:
    """The first attempt of its partition, by which that is called."""
    return attempt_id // SPAN * SPAN


def there(connection: Connection) -> list[int]:
    """The partitions that are there, the oldest first."""
    found = connection.scalars(
        text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'batches'::regclass")
    )
    return sorted(int(name.rpartition("_p")[2].rstrip('"')) for name in found)


def make(connection: Connection, first: int) -> None:
    """A partition of every table, for the attempts from `first` on. Attached as tables of their own: made as a part of
    the other one they would lock it for those who read."""
    for table in parted():
        part = f"{table}_p{first}"
        connection.execute(text(f"CREATE TABLE {part} (LIKE {table} INCLUDING DEFAULTS)"))
        connection.execute(
            text(f"ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES FROM ({first}) TO ({first + SPAN})")
        )


def drop(connection: Connection, first: int) -> None:
    """Everything of those attempts, at once."""
    connection.execute(
        text("SET LOCAL lock_timeout = '5s'")
    )  # who reads ends soon; who reads for long goes first
    for table in parted():
        connection.execute(text(f"DROP TABLE {table}_p{first}"))


def keep() -> None:
    """From now on a partition is made where its first attempt is added. Once is enough."""
    if not event.contains(Attempt, "after_insert", _made_before_use):
        event.listen(Attempt, "after_insert", _made_before_use)


def _made_before_use(_mapper: Mapper[Any], connection: Connection, attempt: Attempt) -> None:
    if connection.dialect.name != "postgresql":
        return
    first = first_of(attempt.id)
    if connection.scalar(text("SELECT to_regclass(:name)"), {"name": f"batches_p{first}"}) is None:
        make(connection, first)
