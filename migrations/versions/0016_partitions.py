"""Telemetry by layer and by link in partitions of attempts, on PostgreSQL; and when it was removed, on every database.

What was recorded before becomes the first partition as it is: nothing is copied. Back again it is.

Revision: 0016, after 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

SPAN = 100
KEYS = {
    "batches": ("party", "sequence"),
    "layer_totals": ("step", "party", "layer", "kind", "track"),
    "link_bins": ("level", "party", "interface", "bin", "direction", "layer"),
    "dropped_details": ("party", "sequence"),
    "layer_waits": ("level", "step", "layer"),
    "transfer_totals": ("level", "step", "party", "kind"),
    "detailed_steps": ("step", "party"),
    "staleness_counts": ("layer", "worker", "staleness"),
    "staleness_windows": ("level", "bin", "worker", "staleness"),
}
INDEXED = ("attempt_id", "first_step", "last_step")
"""Of batches."""


def upgrade() -> None:
    op.add_column("attempts", sa.Column("forgotten_unix_ns", sa.BigInteger(), nullable=True))
    if op.get_bind().dialect.name != "postgresql":
        return
    newest = op.get_bind().scalar(sa.text("SELECT coalesce(max(id), 0) FROM attempts")) or 0
    beyond = (newest // SPAN + 1) * SPAN
    for table in KEYS:
        first = f"{table}_p{beyond - SPAN}"
        op.rename_table(table, first)
        op.execute(f"ALTER TABLE {first} RENAME CONSTRAINT pk_{table} TO pk_{first}")
        if table == "batches":
            op.execute(f"ALTER INDEX {_index(table)} RENAME TO {_index(first)}")
        op.execute(f"CREATE TABLE {table} (LIKE {first} INCLUDING DEFAULTS) PARTITION BY RANGE (attempt_id)")
        _constrain(table)
        op.execute(f"ALTER TABLE {table} ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ({beyond})")


def downgrade() -> None:
    op.drop_column("attempts", "forgotten_unix_ns")
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in KEYS:
        op.execute(f"CREATE TABLE {table}_whole (LIKE {table} INCLUDING DEFAULTS)")
        op.execute(f"INSERT INTO {table}_whole SELECT * FROM {table}")
        op.drop_table(table)
        op.rename_table(f"{table}_whole", table)
        _constrain(table)


def _constrain(table: str) -> None:
    op.create_primary_key(op.f(f"pk_{table}"), table, ["attempt_id", *KEYS[table]])
    op.create_foreign_key(
        op.f(f"fk_{table}_attempt_id_attempts"), table, "attempts", ["attempt_id"], ["id"], ondelete="CASCADE"
    )
    if table == "batches":
        op.create_index(op.f(_index(table)), table, list(INDEXED))


def _index(table: str) -> str:
    return f"ix_{table}_{'_'.join(INDEXED)}"
