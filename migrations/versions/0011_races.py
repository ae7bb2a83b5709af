"""Races, their jobs, and who takes part in them no more.

Revision: 0011, after 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "races",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("body_sha256", sa.String(length=64), nullable=True),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_unix_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_races")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_races_idempotency_key")),
    )
    op.create_index(op.f("ix_races_state"), "races", ["state"])
    op.create_table(
        "race_runs",
        sa.Column("race_id", sa.String(length=36), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("condition", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["race_id"], ["races.id"], name=op.f("fk_race_runs_race_id_races"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_race_runs_job_id_jobs"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("race_id", "member", "condition", "round", name=op.f("pk_race_runs")),
    )
    op.create_index(op.f("ix_race_runs_job_id"), "race_runs", ["job_id"])
    op.create_table(
        "race_outs",
        sa.Column("race_id", sa.String(length=36), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("condition", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["race_id"], ["races.id"], name=op.f("fk_race_outs_race_id_races"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("race_id", "member", "condition", name=op.f("pk_race_outs")),
    )


def downgrade() -> None:
    op.drop_table("race_outs")
    op.drop_index(op.f("ix_race_runs_job_id"), "race_runs")
    op.drop_table("race_runs")
    op.drop_index(op.f("ix_races_state"), "races")
    op.drop_table("races")
