"""When each job of a race was made, kept beside it also where the job is deleted; and races of which no job succeeded
have failed.

Revision: 0013, after 0012.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("race_runs", sa.Column("made_unix_ns", sa.BigInteger(), nullable=True))
    op.execute(
        "UPDATE race_runs SET made_unix_ns ="
        " (SELECT jobs.created_unix_ns FROM jobs WHERE jobs.id = race_runs.job_id)"
    )
    # A job that was deleted may have succeeded: nobody knows.
    op.execute(
        "UPDATE races SET state = 'failed' WHERE state = 'finished' AND NOT EXISTS"
        " (SELECT 1 FROM race_runs LEFT JOIN jobs ON jobs.id = race_runs.job_id WHERE race_runs.race_id = races.id"
        " AND (race_runs.job_id IS NULL OR jobs.state = 'succeeded'))"
    )


def downgrade() -> None:
    op.execute("UPDATE races SET state = 'finished' WHERE state = 'failed'")
    op.drop_column("race_runs", "made_unix_ns")
