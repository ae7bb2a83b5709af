"""A digest of what a job's duration follows from; for whom an attempt made room.

Revision: 0019, after 0018.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("digest", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_jobs_digest_ended_unix_ns"), "jobs", ["digest", "ended_unix_ns"])
    op.add_column("attempts", sa.Column("preempted_for", sa.String(length=36), nullable=True))


def downgrade() -> None:
    op.drop_column("attempts", "preempted_for")
    op.drop_index(op.f("ix_jobs_digest_ended_unix_ns"), "jobs")
    op.drop_column("jobs", "digest")
