"""Run by Alembic. The server passes its own connection (`backend/db/migrate.py`).

From a shell, to write the next migration after changing a model:
`TRAINYARD_DATABASE=sqlite:////tmp/scratch.db alembic -c migrations/alembic.ini revision --autogenerate -m
"..."`.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy.engine import Connection

from backend.db.engine import open_engine
from backend.db.models import Base
from backend.db.partitions import is_partition


def migrate(connection: Connection) -> None:
    # Batch mode: SQLite cannot alter a column in place, Alembic copies the table instead.
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        include_name=lambda name, kind, _parents: kind != "table" or not is_partition(str(name)),
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with open_engine(os.environ["TRAINYARD_DATABASE"], readonly=False).begin() as opened:
        migrate(opened)
