"""How stale the contributions of workers that drift were: of every layer and worker in all, and of every worker in
windows of time. Jobs that ran before have none.

Revision: 0014, after 0013.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    small, attempt = sa.SmallInteger, sa.BigInteger().with_variant(sa.Integer(), "sqlite")

    def key(name: str, kind: type[sa.types.TypeEngine[int]] = sa.Integer) -> sa.Column[int]:
        return sa.Column(name, kind(), autoincrement=False, nullable=False)

    for table, keys in (
        ("staleness_counts", [key("layer", small), key("worker", small), key("staleness")]),
        (
            "staleness_windows",
            [key("level", small), key("bin"), key("worker", small), key("staleness")],
        ),
    ):
        op.create_table(
            table,
            sa.Column("attempt_id", attempt, nullable=False),
            *keys,
            sa.Column("count", sa.BigInteger(), nullable=False),
            sa.ForeignKeyConstraint(
                ["attempt_id"],
                ["attempts.id"],
                name=op.f(f"fk_{table}_attempt_id_attempts"),
                ondelete="CASCADE",
            ),
            sa.PrimaryKeyConstraint(
                "attempt_id", *(column.name for column in keys), name=op.f(f"pk_{table}")
            ),
            sqlite_with_rowid=False,
        )


def downgrade() -> None:
    op.drop_table("staleness_windows")
    op.drop_table("staleness_counts")
