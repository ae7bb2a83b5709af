"""The tables: migrations make exactly what the models say, and a newer database is left alone."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine

from backend.db import Database, SchemaError
from backend.db.engine import open_engine, sqlite_url
from backend.db.migrate import upgrade
from backend.db.models import Base
from backend.figures.source import ran_meanwhile


def migrated(path: Path) -> Engine:
    engine = open_engine(sqlite_url(path), readonly=False)
    upgrade(engine)
    return engine


def schema(path: Path) -> dict[str, list[str]]:
    """Every table and index with the parts of its SQL; white space, quotes and the order of parts aside."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {
        name: sorted(re.split(r"[\s\",()]+", sql))
        for name, sql in rows
        if not name.startswith(("alembic", "sqlite"))
    }


def test_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    engine = migrated(tmp_path / "migrated.db")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    made = open_engine(sqlite_url(tmp_path / "made.db"), readonly=False)
    Base.metadata.create_all(made)
    assert schema(tmp_path / "migrated.db") == schema(tmp_path / "made.db")


def test_upgrade_twice_changes_nothing(tmp_path: Path) -> None:
    before = schema(tmp_path / "a.db") if migrated(tmp_path / "a.db") else {}
    migrated(tmp_path / "a.db")
    assert schema(tmp_path / "a.db") == before


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    migrated(tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match=r"9999.*newer than this program.*newer version of trainyard"):
        Database(sqlite_url(tmp_path / "a.db"))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://localhost/trainyard"])
def test_a_database_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///"):
        open_engine(url, readonly=False)


@pytest.mark.parametrize("end", [None, 9], ids=["running", "ended"])
def test_who_ran_at_the_same_time_is_answered_from_an_index_alone(tmp_path: Path, end: int | None) -> None:
    engine = migrated(tmp_path / "a.db")
    asked = ran_meanwhile("a", 5, end).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all())
    assert "COVERING INDEX ix_jobs_ended_unix_ns_started_unix_ns_id" in plan
    assert "SCAN" not in plan
