"""Bringing a database to this program's schema, with Alembic, when the server starts."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from backend.db.engine import shown
from backend.db.models import Base
from backend.errors import SurroundingsError

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


class SchemaError(SurroundingsError):
    """The database's schema does not fit this program."""


def alembic_config() -> Config:
    """Alembic's configuration without an ini file; raises SchemaError where the migrations are not
    installed."""
    if not (MIGRATIONS / "env.py").is_file():
        raise SchemaError(
            f"no migrations in {MIGRATIONS}: they are part of the source tree. Run the server from a "
            "checkout (pip install -e .) or copy migrations/ there"
        )
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def upgrade(engine: Engine) -> None:
    """Migrate to the newest schema, in one transaction; a database that is there already is left alone.

    Two servers that start at once are safe: the transaction takes the writers' lock first, and the second one then
    finds nothing left to do. Raises SchemaError.
    """
    config = alembic_config()
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    with engine.begin() as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
        if unknown := present - known:
            raise SchemaError(
                f"the database {_name(connection)} has schema {', '.join(sorted(unknown))}, "
                f"which is newer than this program (its newest: {scripts.get_current_head()}). Start the "
                "newer version of trainyard that made it, or use another database"
            )
        if not present:
            _refuse_other_tables(connection)
        if present != set(
            scripts.get_heads()
        ):  # alembic would look through all migrations to find nothing to do
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        _refuse_gaps(connection)


def _refuse_other_tables(connection: Connection) -> None:
    """Raises SchemaError for a database without our schema in which tables have the names of ours."""
    if theirs := sorted(_ours() & set(inspect(connection).get_table_names())):
        raise SchemaError(
            f"the database {_name(connection)} holds tables that another program made ({', '.join(theirs)}). "
            "Use another database"
        )


def _refuse_gaps(connection: Connection) -> None:
    """Raises SchemaError for a database that says that it has our schema, and lacks tables of it."""
    if lacking := sorted(_ours() - set(inspect(connection).get_table_names())):
        raise SchemaError(
            f"the database {_name(connection)} lacks tables of its own schema ({', '.join(lacking)}): it is damaged, "
            "or was copied in part. Put a whole copy in its place, or use another database"
        )


def _ours() -> set[str]:
    return set(Base.metadata.tables)


def _name(connection: Connection) -> str:
    return shown(connection.engine.url)
