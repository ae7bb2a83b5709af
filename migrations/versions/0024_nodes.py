"""Nodes, which servers tell of; maintenance of a whole node, and with an end.

Revision: 0024, after 0023.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("home", sa.String(36), nullable=False),
        sa.Column("view", sa.String(120), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("interfaces", JSON, nullable=False),
        sa.Column("cpu_slots", sa.Integer, nullable=False),
        sa.Column("devices", JSON, nullable=False),
        sa.Column("called", sa.Text, nullable=False),
        sa.Column("seen_unix_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("home", name=op.f("uq_nodes_home")),
        sqlite_autoincrement=True,
    )
    op.add_column("maintenance", sa.Column("ends_unix_ns", sa.BigInteger(), nullable=True))
    op.add_column("maintenance", sa.Column("node", sa.String(length=200), nullable=True))
    op.drop_column("servers", "devices")  # `nodes` has them, with what is known of each


def downgrade() -> None:
    # A server of the older version writes it when it joins.
    op.add_column("servers", sa.Column("devices", JSON, nullable=False, server_default="{}"))
    op.drop_column("maintenance", "node")
    op.drop_column("maintenance", "ends_unix_ns")
    op.drop_table("nodes")
