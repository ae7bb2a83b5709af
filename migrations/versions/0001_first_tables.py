"""first tables.

Revision: 0001, after nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("plan", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("description", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("baseline_id", sa.String(length=36), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("body_sha256", sa.String(length=64), nullable=True),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("queued_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("started_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["baseline_id"], ["jobs.id"], name=op.f("fk_jobs_baseline_id_jobs"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_jobs_idempotency_key")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_jobs_baseline_id"), ["baseline_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_jobs_created_unix_ns"), ["created_unix_ns"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_jobs_state_priority_queued_unix_ns"),
            ["state", "priority", "queued_unix_ns"],
            unique=False,
        )

    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("parties", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("token_sha256", sa.String(length=64), nullable=False),
        sa.Column("epoch_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("devices", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("supervisor_boot_id", sa.String(length=64), nullable=True),
        sa.Column("supervisor_pid", sa.Integer(), nullable=True),
        sa.Column("supervisor_start", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("sealed", sa.Boolean(), nullable=False),
        sa.Column("last_sequences", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("started_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_unix_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_attempts_job_id_number")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_attempts_state"), ["state"], unique=False)

    op.create_table(
        "notices",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("payload", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_notices_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("notices", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_notices_job_id"), ["job_id"], unique=False)

    op.create_table(
        "batches",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("party", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("sequence", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("first_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("received_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_batches_attempt_id_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "party", "sequence", name=op.f("pk_batches")),
    )
    with op.batch_alter_table("batches", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_batches_attempt_id_first_step_last_step"),
            ["attempt_id", "first_step", "last_step"],
            unique=False,
        )

    op.create_table(
        "layer_totals",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("party", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("layer", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("track", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("busy_ns", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("exposed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_layer_totals_attempt_id_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "attempt_id", "step", "party", "layer", "kind", "track", name=op.f("pk_layer_totals")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "link_bins",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("level", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("party", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("interface", sa.String(length=64), nullable=False),
        sa.Column("bin", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("direction", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("layer", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_link_bins_attempt_id_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "attempt_id",
            "level",
            "party",
            "interface",
            "bin",
            "direction",
            "layer",
            name=op.f("pk_link_bins"),
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "links",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("party", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("interface", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("rate_bps", sa.BigInteger(), nullable=True),
        sa.Column("rate_source", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_links_attempt_id_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "party", "interface", name=op.f("pk_links")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "metrics",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_metrics_attempt_id_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "name", "step", name=op.f("pk_metrics")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "step_rows",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("party", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("exposed_ns", sa.BigInteger(), nullable=False),
        sa.Column("compute_ns", sa.BigInteger(), nullable=False),
        sa.Column("input_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_step_rows_attempt_id_attempts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", "step", "party", name=op.f("pk_step_rows")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "transitions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("from_state", sa.String(length=32), nullable=True),
        sa.Column("to_state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("from_state IS NULL OR from_state <> to_state", name=op.f("ck_transitions_moves")),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_transitions_attempt_id_attempts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_transitions_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transitions")),
    )
    with op.batch_alter_table("transitions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_transitions_attempt_id"), ["attempt_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_transitions_job_id"), ["job_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("transitions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_transitions_job_id"))
        batch_op.drop_index(batch_op.f("ix_transitions_attempt_id"))

    op.drop_table("transitions")
    op.drop_table("step_rows")
    op.drop_table("metrics")
    op.drop_table("links")
    op.drop_table("link_bins")
    op.drop_table("layer_totals")
    with op.batch_alter_table("batches", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_batches_attempt_id_first_step_last_step"))

    op.drop_table("batches")
    with op.batch_alter_table("notices", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_notices_job_id"))

    op.drop_table("notices")
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_attempts_state"))

    op.drop_table("attempts")
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_state_priority_queued_unix_ns"))
        batch_op.drop_index(batch_op.f("ix_jobs_created_unix_ns"))
        batch_op.drop_index(batch_op.f("ix_jobs_baseline_id"))

    op.drop_table("jobs")
