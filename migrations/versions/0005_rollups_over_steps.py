"""Sums over groups of steps, and which steps have detail, for figures of long runs.

What was recorded before is summed here; which steps have detail is read from the batches themselves.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa
from alembic import op

from engine.telemetry.batch import decode

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

LEVELS = (1, 8, 64, 512, 4096)
"""Steps of a row at each level."""
SEND, RECEIVE = 3, 4


def upgrade() -> None:
    small, attempt = sa.SmallInteger, sa.BigInteger().with_variant(sa.Integer(), "sqlite")

    def key(name: str, kind: type[sa.types.TypeEngine[int]] = sa.Integer) -> sa.Column[int]:
        return sa.Column(name, kind(), autoincrement=False, nullable=False)

    for table, columns, keys in (
        (
            "layer_waits",
            [key("level", small), key("step"), key("layer", small), _value("exposed_ns")],
            ("level", "step", "layer"),
        ),
        (
            "transfer_totals",
            [key("level", small), key("step"), key("party", small), key("kind", small), _value("busy_ns")],
            ("level", "step", "party", "kind"),
        ),
        ("detailed_steps", [key("step"), key("party", small)], ("step", "party")),
    ):
        op.create_table(
            table,
            sa.Column("attempt_id", attempt, nullable=False),
            *columns,
            sa.ForeignKeyConstraint(
                ["attempt_id"],
                ["attempts.id"],
                name=op.f(f"fk_{table}_attempt_id_attempts"),
                ondelete="CASCADE",
            ),
            sa.PrimaryKeyConstraint("attempt_id", *keys, name=op.f(f"pk_{table}")),
            sqlite_with_rowid=False,
        )
    for level, size in enumerate(LEVELS):
        op.execute(
            "INSERT INTO layer_waits (attempt_id, level, step, layer, exposed_ns) "
            f"SELECT attempt_id, {level}, step / {size} * {size}, layer, SUM(exposed_ns) FROM layer_totals "
            f"WHERE exposed_ns > 0 GROUP BY attempt_id, step / {size} * {size}, layer"
        )
        op.execute(
            "INSERT INTO transfer_totals (attempt_id, level, step, party, kind, busy_ns) "
            f"SELECT attempt_id, {level}, step / {size} * {size}, party, kind, SUM(busy_ns) FROM layer_totals "
            f"WHERE kind IN ({SEND}, {RECEIVE}) GROUP BY attempt_id, step / {size} * {size}, party, kind"
        )
    _detailed_steps()


def _value(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _detailed_steps() -> None:
    connection = op.get_bind()
    keys = connection.execute(
        sa.text("SELECT attempt_id, party, sequence FROM batches WHERE events > 0")
    ).all()
    found: set[tuple[int, int, int]] = set()
    of = sa.text(
        "SELECT body FROM batches WHERE attempt_id = :attempt AND party = :party AND sequence = :sequence"
    )
    for attempt, party, sequence in keys:
        body = connection.execute(of, {"attempt": attempt, "party": party, "sequence": sequence}).scalar_one()
        steps = np.unique(decode(body).table("events")["step"]).tolist()
        found |= {(attempt, step, party) for step in steps if step >= 0}
    if found:
        connection.execute(
            sa.text("INSERT INTO detailed_steps (attempt_id, step, party) VALUES (:attempt, :step, :party)"),
            [{"attempt": a, "step": s, "party": p} for a, s, p in sorted(found)],
        )


def downgrade() -> None:
    for table in ("layer_waits", "transfer_totals", "detailed_steps"):
        op.drop_table(table)
