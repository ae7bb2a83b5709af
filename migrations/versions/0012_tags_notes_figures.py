"""What people say of jobs (tags and a note), and every job's newest figures, by which lists are sorted.

Revision: 0012, after 0011.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("note", sa.Text(), nullable=True))
    op.create_table(
        "job_tags",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=50), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_tags_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "tag", name=op.f("pk_job_tags")),
    )
    op.create_index(op.f("ix_job_tags_tag"), "job_tags", ["tag"])
    op.create_table(
        "job_figures",
        sa.Column("job_id", sa.String(length=36), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("test_accuracy", sa.Double(), nullable=True),
        sa.Column("samples_per_s", sa.Double(), nullable=True),
        sa.Column("speed_up", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_figures_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_figures")),
    )


def downgrade() -> None:
    op.drop_table("job_figures")
    op.drop_index(op.f("ix_job_tags_tag"), "job_tags")
    op.drop_table("job_tags")
    op.drop_column("jobs", "note")
