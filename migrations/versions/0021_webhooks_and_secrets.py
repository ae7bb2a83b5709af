"""Webhooks with the log of what they were told, and secrets of jobs.

Revision: 0021, after 0020.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("owner", sa.String(100), nullable=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("host", sa.String(300), nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("events", JSON, nullable=False),
        sa.Column("everybodys", sa.Boolean, nullable=False),
        sa.Column("created_unix_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_webhooks_owner"), "webhooks", ["owner"])
    op.create_table(
        "deliveries",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("webhook_id", ROW_ID, nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("body", JSON, nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("next_unix_ns", sa.BigInteger, nullable=True),
        sa.Column("tried_unix_ns", sa.BigInteger, nullable=True),
        sa.Column("status", sa.Integer, nullable=True),
        sa.Column("trouble", sa.Text, nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_deliveries_webhook_id_webhooks"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_deliveries_webhook_id_id"), "deliveries", ["webhook_id", "id"])
    op.create_index(op.f("ix_deliveries_next_unix_ns"), "deliveries", ["next_unix_ns"])
    op.create_table(
        "secrets",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("changed_unix_ns", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_secrets")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_secrets_owner_name")),
    )


def downgrade() -> None:
    for table in ("secrets", "deliveries", "webhooks"):
        op.drop_table(table)
