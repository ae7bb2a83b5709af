"""Several servers on one database: who they are, who looks after which attempt, and who placed it.

Attempts that were there before belong to the first server that finds them.

Revision: 0015, after 0014.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

COLUMNS = (
    ("server_id", sa.String(length=36)),
    ("home", sa.String(length=36)),
    ("view", sa.String(length=120)),
    ("called", sa.Text()),
)


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("home", sa.String(length=36), nullable=False),
        sa.Column("view", sa.String(length=120), nullable=False),
        sa.Column("called", sa.Text(), nullable=False),
        sa.Column("devices", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("until_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
    )
    op.create_table(
        "roles",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("server_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_roles_server_id_servers"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_roles")),
    )
    op.create_index(op.f("ix_roles_server_id"), "roles", ["server_id"])
    for name, kind in COLUMNS:
        op.add_column("attempts", sa.Column(name, kind, nullable=True))
    op.create_index(op.f("ix_attempts_server_id"), "attempts", ["server_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_attempts_server_id"), "attempts")
    for name, _ in reversed(COLUMNS):
        op.drop_column("attempts", name)
    op.drop_index(op.f("ix_roles_server_id"), "roles")
    op.drop_table("roles")
    op.drop_table("servers")
