"""Devices that are in maintenance; projects, which share the devices.

Revision: 0020, after 0019.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "maintenance",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("devices", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("home", sa.String(length=36), nullable=True),
        sa.Column("view", sa.String(length=120), nullable=True),
        sa.Column("called", sa.Text(), nullable=False),
        sa.Column("begins_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("makes_room", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("who", sa.String(length=100), nullable=True),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maintenance")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("cpu", sa.Integer(), nullable=True),
        sa.Column("cuda", sa.Integer(), nullable=True),
        sa.Column("rehearsal", sa.Integer(), nullable=True),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.add_column("jobs", sa.Column("project", sa.String(length=100), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "project")
    op.drop_table("projects")
    op.drop_table("maintenance")
