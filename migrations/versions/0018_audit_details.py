"""What an entry of the audit log gave or took; old entries may go.

Revision: 0018, after 0017.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import context, op

from backend.db.models.audit import APPEND_ONLY

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("details", sa.JSON(none_as_null=True), nullable=True))
    _guard(APPEND_ONLY)


def downgrade() -> None:
    op.drop_column("audit", "details")
    _guard(context.script.get_revision("0017").module.APPEND_ONLY)


def _guard(statements: dict[str, Sequence[str]]) -> None:
    """Let the database refuse by these, in place of what it has."""
    dialect = op.get_context().dialect.name
    if dialect == "postgresql":
        op.execute("DROP FUNCTION audit_refuse() CASCADE")
    else:
        for what in ("update", "delete", "replace"):
            op.execute(f"DROP TRIGGER audit_no_{what}")
    for statement in statements[dialect]:
        op.execute(statement)
