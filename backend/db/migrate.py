"""Bringing a database to this program's schema, with Alembic, when the server starts."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


class SchemaError(RuntimeError):
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

    Two servers that start at once are safe on SQLite: the transaction takes the write lock first, and the
    second one then finds nothing left to do.
    """
    config = alembic_config()
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    with engine.begin() as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
        if unknown := present - known:
            raise SchemaError(
                f"the database {engine.url.render_as_string()} has schema {', '.join(sorted(unknown))}, "
                f"which is newer than this program (its newest: {scripts.get_current_head()}). Start the "
                "newer version of trainyard that made it, or use another database"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
