"""jobs by the time when they ended, so that who asks which jobs ran at the same time is answered from the index alone.

With the start first, SQLite preferred to read all rows.

Revision: 0006, after 0005.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index(op.f("ix_jobs_started_unix_ns_ended_unix_ns"), "jobs")
    op.create_index(
        op.f("ix_jobs_ended_unix_ns_started_unix_ns_id"), "jobs", ["ended_unix_ns", "started_unix_ns", "id"]
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_ended_unix_ns_started_unix_ns_id"), "jobs")
    op.create_index(
        op.f("ix_jobs_started_unix_ns_ended_unix_ns"), "jobs", ["started_unix_ns", "ended_unix_ns"]
    )
