"""jobs that wait for their next attempt.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("retry_unix_ns", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    # Not as a batch: that makes the table anew, and dropping the old one takes all attempts along.
    op.drop_column("jobs", "retry_unix_ns")
