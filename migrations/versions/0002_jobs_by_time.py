"""jobs by the time when they ran.

Every race and every summary asks which jobs ran at the same time; without an index that reads all rows, plans
and descriptions included. Nothing asks for jobs by the time of their creation: their ids sort so.

Revision: 0002, after 0001.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_created_unix_ns"))
        batch_op.create_index(
            batch_op.f("ix_jobs_started_unix_ns_ended_unix_ns"),
            ["started_unix_ns", "ended_unix_ns"],
            unique=False,
        )


def downgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_jobs_started_unix_ns_ended_unix_ns"))
        batch_op.create_index(batch_op.f("ix_jobs_created_unix_ns"), ["created_unix_ns"], unique=False)
