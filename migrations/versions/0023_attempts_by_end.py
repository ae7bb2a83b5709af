"""What has ended lately is looked for at each look at the queue: an index of attempts by their ends.

Revision: 0023, after 0022.
"""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("ix_attempts_ended_unix_ns"), "attempts", ["ended_unix_ns"])


def downgrade() -> None:
    op.drop_index(op.f("ix_attempts_ended_unix_ns"), "attempts")
