"""sign_ins: sessions of browsers that showed the server's token.

Revision: 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("id_hmac", sa.String(length=64), nullable=False),
        sa.Column("ends_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id_hmac", name=op.f("pk_sign_ins")),
    )


def downgrade() -> None:
    op.drop_table("sign_ins")
