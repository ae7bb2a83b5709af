"""The tables: migrations make exactly what the models say, and a newer database is left alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.orm import Session, load_only

from backend.db import Database, SchemaError
from backend.db.engine import open_engine, sqlite_url
from backend.db.migrate import alembic_config, upgrade
from backend.db.models import Attempt, Base
from backend.db.partitions import is_partition
from backend.executors.process import Identity
from backend.executors.supervised import Supervised
from backend.figures.source import ran_meanwhile
from backend.scheduler import changes
from backend.scheduler.snapshot import waiting


def migrated(url: str) -> Engine:
    engine = open_engine(url, readonly=False)
    upgrade(engine)
    return engine


def schema(engine: Engine) -> dict[str, Any]:
    """Every table with its columns, keys and indexes, as the database tells them. Of SQLite its own SQL, too; white
    space, quotes and the order of parts aside."""
    told = inspect(engine)
    parts = (told.get_columns, told.get_pk_constraint, told.get_foreign_keys, told.get_indexes)
    more = (told.get_unique_constraints, told.get_check_constraints)
    names = sorted(
        name for name in told.get_table_names() if name != "alembic_version" and not is_partition(name)
    )
    found: dict[str, Any] = {
        name: [sorted(repr(entry) for entry in _entries(part(name))) for part in (*parts, *more)]
        for name in names
    }
    if engine.dialect.name != "sqlite":
        return found
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    return found | {
        f"{name}'s SQL": sorted(re.split(r"[\s\",()]+", sql))
        for name, sql in rows
        if not name.startswith(("alembic", "sqlite"))
    }


def _entries(told: Any) -> Iterator[Any]:
    """Conditions of indexes are objects: what they say is compared."""
    for entry in told if isinstance(told, list) else [told]:
        options = {name: str(value) for name, value in entry.get("dialect_options", {}).items()}
        yield {**entry, "dialect_options": options} if options else entry


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or not is_partition(str(name))


def test_migrations_make_what_the_models_say(new_url: Callable[[], str]) -> None:
    engine = migrated(new_url())
    with engine.connect() as connection:
        assert (
            compare_metadata(
                MigrationContext.configure(connection, opts={"include_name": _ours}), Base.metadata
            )
            == []
        )
    made = open_engine(new_url(), readonly=False)
    Base.metadata.create_all(made)
    assert len(schema(engine)) >= len(Base.metadata.tables)
    assert schema(engine) == schema(made)
    engine.dispose()
    made.dispose()


def test_upgrade_twice_changes_nothing(new_url: Callable[[], str]) -> None:
    engine = migrated(new_url())
    before = schema(engine)
    upgrade(engine)
    assert schema(engine) == before
    engine.dispose()


def test_a_newer_schema_is_refused(new_url: Callable[[], str]) -> None:
    url = new_url()
    engine = migrated(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(SchemaError, match=r"9999.*newer than this program.*newer version of trainyard"):
        Database(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://localhost/trainyard"])
def test_a_database_that_cannot_work_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///"):
        open_engine(url, readonly=False)


def test_which_jobs_wait_at_which_revision_is_answered_from_an_index_alone(tmp_path: Path) -> None:
    engine = migrated(sqlite_url(tmp_path / "a.db"))
    asked = waiting(5).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        assert "COVERING INDEX ix_jobs_waiting" in str(
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all()
        )


@pytest.mark.parametrize("end", [None, 9], ids=["running", "ended"])
def test_who_ran_at_the_same_time_is_answered_from_an_index_alone(tmp_path: Path, end: int | None) -> None:
    engine = migrated(sqlite_url(tmp_path / "a.db"))
    asked = ran_meanwhile("a", 5, end).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all())
    assert "COVERING INDEX ix_jobs_ended_unix_ns_started_unix_ns_id" in plan
    assert "SCAN" not in plan


def test_people_come_with_their_migration_and_go_with_it_and_jobs_stay(new_url: Callable[[], str]) -> None:
    engine = open_engine(new_url(), readonly=False)
    move = partial(_move, engine)

    def run(*statements: str) -> None:
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def found(query: str) -> list[tuple[Any, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    move("0016")
    before = schema(engine)
    run(
        "INSERT INTO jobs (id, name, spec, state, priority, created_unix_ns, revision) "
        "VALUES ('a', 'kept', '{}', 'failed', 0, 1, 1)",
        "INSERT INTO transitions (job_id, to_state, at_unix_ns) VALUES ('a', 'failed', 1)",
        "INSERT INTO sign_ins (id_hmac, ends_unix_ns) VALUES ('b', 2)",
    )
    for _ in range(2):
        move("0017")
        assert found("SELECT name, owner FROM jobs") == [("kept", None)]
        assert found("SELECT id_sha256 FROM sign_ins") == [], "everybody signs in once more"
        run(
            "INSERT INTO users (id, name, role, created_unix_ns) VALUES (1, 'ada', 'admin', 1)",
            "INSERT INTO tokens (id, user_id, name, scope, hash, environment, created_unix_ns) "
            "VALUES (1, 1, 'laptop', 'admin', 'c', FALSE, 1)",
            "INSERT INTO sign_ins (id_sha256, token_id, ends_unix_ns) VALUES ('d', 1, 2)",
            "INSERT INTO audit (at_unix_ns, action, target, status) VALUES (1, 'delete_job', 'jobs/b', 204)",
            "UPDATE jobs SET owner = 'ada'",
        )
        move("0016")
        assert schema(engine) == before
        assert found("SELECT name FROM jobs") == [("kept",)]
        assert found("SELECT to_state FROM transitions") == [("failed",)]
    engine.dispose()


def test_an_attempt_that_runs_keeps_its_handle_over_the_migration(new_url: Callable[[], str]) -> None:
    engine = open_engine(new_url(), readonly=False)
    _move(engine, "0021")
    columns = "supervisor_boot_id, supervisor_pid, supervisor_start"
    kept = [(1, "boot", 12, 2**40), (2, None, None, None)]
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO jobs (id, name, spec, state, priority, created_unix_ns, revision) "
            "VALUES ('a', 'kept', '{}', 'running', 0, 1, 1)"
        )
        for number, boot, pid, start in kept:
            values = [boot and f"'{boot}'", pid, start]
            connection.exec_driver_sql(
                "INSERT INTO attempts (id, job_id, number, state, parties, token_sha256, directory, devices, sealed, "
                f"created_unix_ns, {columns}) VALUES ({number}, 'a', {number}, 'running', '[]', '', '/jobs/a', '[]', "
                f"FALSE, 1, {', '.join('NULL' if each is None else str(each) for each in values)})"
            )
    _move(engine, "0022")
    with Session(engine) as session:
        found = [session.get_one(Attempt, number, options=[load_only(Attempt.handle)]) for number, *_ in kept]
        handles = [changes.handle_of(attempt) for attempt in found]
    assert handles[0] is not None
    assert Supervised.of(handles[0]) == Supervised(
        directory=Path("/jobs/a"), identity=Identity(boot_id="boot", pid=12, start_ticks=2**40)
    )
    assert handles[1] is None
    _move(engine, "0021")
    with engine.connect() as connection:
        back = connection.exec_driver_sql(f"SELECT id, {columns} FROM attempts ORDER BY id").all()
    assert [tuple(row) for row in back] == kept
    engine.dispose()


def _move(engine: Engine, revision: str) -> None:
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        move_to = command.upgrade if revision >= _revision(connection) else command.downgrade
        move_to(config, revision)


def _revision(connection: Connection) -> str:
    return MigrationContext.configure(connection).get_current_revision() or ""
