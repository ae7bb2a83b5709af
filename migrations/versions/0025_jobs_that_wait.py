"""The scheduler asks at each look which jobs wait, and at which revision: an index that answers that alone.

Revision: 0025, after 0024.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

WAITING = sa.text("state = 'queued'")


def upgrade() -> None:
    columns = ["state", "id", "revision", "retry_unix_ns"]
    op.create_index("ix_jobs_waiting", "jobs", columns, sqlite_where=WAITING, postgresql_where=WAITING)


def downgrade() -> None:
    op.drop_index("ix_jobs_waiting", "jobs")
