"""Migrations, one after another, down (in the soak to the first tables) and up again, with data: nothing that both ends
have is lost or changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from backend.db import Database
from backend.db.engine import open_engine, sqlite_url
from backend.db.migrate import alembic_config
from backend.db.models import ServerRow
from backend.db.partitions import is_partition
from backend.services.benchmark_fill import add_others
from tests.backend.recorded_run import record_run
from tests.databases import POSTGRESQL, SQLITE

Rows = dict[str, list[dict[str, Any]]]
DERIVED = ("layer_waits", "transfer_totals", "detailed_steps")
"""What the fifth migration sums up from what was recorded."""


def content(connection: Connection) -> Rows:
    return {
        table: [dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}").mappings()]
        for table in inspect(connection).get_table_names()
        if table != "alembic_version" and not is_partition(table)
    }


def common(rows: Rows, other: Rows) -> dict[str, list[str]]:
    """Of the tables that both have, the columns that both have, as texts in one order."""
    return {
        table: sorted(repr(sorted((k, row[k]) for k in row.keys() & other[table][0].keys())) for row in found)
        for table, found in rows.items()
        if found and other.get(table)
    }


def moved(engine: Engine, move: Callable[..., None], revision: str) -> Rows:
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        move(config, revision)
        return content(connection)


@pytest.mark.parametrize(
    ("kind", "lowest"),
    [
        (POSTGRESQL, "0014"),
        pytest.param(POSTGRESQL, "0001", marks=pytest.mark.soak),
        pytest.param(SQLITE, "0001", marks=pytest.mark.soak),
    ],
)
def test_every_migration_keeps_what_it_does_not_make(
    kind: str, lowest: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    on_postgres = kind == POSTGRESQL and request.getfixturevalue("postgres")
    url = on_postgres.new_schema() if on_postgres else sqlite_url(tmp_path / "trainyard.db")
    database = Database(url)
    record_run(database, "p3", steps=9)
    add_others(database, 20)
    server = ServerRow(id="a", home="b", view="c", called="d", until_unix_ns=1)
    database.writer.run(lambda session: session.add(server))
    database.close()
    engine = open_engine(url, readonly=False)
    revisions = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()]
    revisions = [revision for revision in revisions if revision >= lowest]
    with engine.begin() as connection:
        whole = content(connection)
    assert {"jobs", "attempts", "batches", "link_bins", "metrics", "servers"} <= {
        t for t, rows in whole.items() if rows
    }
    walk = [(command.downgrade, to) for to in revisions[1:]]
    walk += [(command.upgrade, to) for to in reversed(revisions[:-1])]
    for move, revision in walk:
        found = moved(engine, move, revision)
        assert common(found, whole) == common(whole, found), revision
        assert all(
            found[table] for table in ("jobs", "attempts", "batches", "step_rows", "layer_totals", "links")
        )
    assert common({t: found[t] for t in DERIVED}, whole) == common({t: whole[t] for t in DERIVED}, found)
    if lowest == "0001":
        assert moved(engine, command.downgrade, "base") == {}
    engine.dispose()
