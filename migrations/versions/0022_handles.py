"""What an executor finds an attempt by: its own words in one column, in place of a process on one machine.

Revision: 0022, after 0021.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

ATTEMPTS = sa.table(
    "attempts",
    sa.column("id", sa.Integer),
    sa.column("directory", sa.Text),
    sa.column("supervisor_boot_id", sa.String),
    sa.column("supervisor_pid", sa.Integer),
    sa.column("supervisor_start", sa.BigInteger),
    sa.column("handle", sa.JSON(none_as_null=True)),
)
LOCAL = "local"
"""The executor that launched everything before this revision, and whose handles the columns can hold."""


def upgrade() -> None:
    op.add_column("attempts", sa.Column("handle", sa.JSON(none_as_null=True), nullable=True))
    of = ATTEMPTS.c
    launched = sa.select(
        of.id, of.directory, of.supervisor_boot_id, of.supervisor_pid, of.supervisor_start
    ).where(
        of.supervisor_boot_id.is_not(None), of.supervisor_pid.is_not(None), of.supervisor_start.is_not(None)
    )
    for id_, directory, boot_id, pid, start in op.get_bind().execute(launched).all():
        data = {"directory": directory, "boot_id": boot_id, "pid": pid, "start_ticks": start}
        _update(id_, handle={"executor": LOCAL, "data": data})
    for name in ("supervisor_boot_id", "supervisor_pid", "supervisor_start"):
        op.drop_column("attempts", name)


def downgrade() -> None:
    op.add_column("attempts", sa.Column("supervisor_boot_id", sa.String(length=64), nullable=True))
    op.add_column("attempts", sa.Column("supervisor_pid", sa.Integer(), nullable=True))
    op.add_column("attempts", sa.Column("supervisor_start", sa.BigInteger(), nullable=True))
    launched = sa.select(ATTEMPTS.c.id, ATTEMPTS.c.handle).where(ATTEMPTS.c.handle.is_not(None))
    for id_, handle in op.get_bind().execute(launched).all():
        if handle["executor"] == LOCAL:
            data = handle["data"]
            _update(
                id_,
                supervisor_boot_id=data["boot_id"],
                supervisor_pid=data["pid"],
                supervisor_start=data["start_ticks"],
            )
    op.drop_column("attempts", "handle")


def _update(id_: int, **values: object) -> None:
    op.get_bind().execute(sa.update(ATTEMPTS).where(ATTEMPTS.c.id == id_).values(**values))
