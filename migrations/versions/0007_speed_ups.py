"""Speed-ups over time, and the models of the devices that an attempt ran on.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("device_models", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "speed_ups",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("measured_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("baseline_id", sa.String(36), nullable=False),
        sa.Column("baseline_name", sa.String(200), nullable=False),
        sa.Column("baseline_workers", sa.Integer(), nullable=False),
        sa.Column("baseline_attempt", sa.Integer(), nullable=True),
        sa.Column("baseline_first_step", sa.Integer(), nullable=False),
        sa.Column("baseline_last_step", sa.Integer(), nullable=False),
        sa.Column("samples_per_s", sa.Double(), nullable=True),
        sa.Column("baseline_samples_per_s", sa.Double(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("scaling", sa.String(8), nullable=False),
        sa.Column("refused", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("caveats", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("baseline_revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_speed_ups_attempt_id_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", "step", name=op.f("pk_speed_ups")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("speed_ups")
    # Not as a batch: that makes the table anew, and dropping the old one takes all telemetry along.
    op.drop_column("attempts", "device_models")
