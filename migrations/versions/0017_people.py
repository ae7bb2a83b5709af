"""users, tokens, audit, who made a job or a race; sign_ins belong to a token: everybody signs in once more.

Revision: 0017, after 0016.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

APPEND_ONLY = {
    "sqlite": tuple(
        f"CREATE TRIGGER audit_no_{what} ON audit {when}BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
        for what, when in (
            ("update BEFORE UPDATE", ""),
            ("delete BEFORE DELETE", ""),
            ("replace BEFORE INSERT", "WHEN NEW.id IN (SELECT id FROM audit) "),
        )
    ),
    "postgresql": (
        "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
        "CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
    ),
}
"""As they were then; 0018 makes others."""


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "users",
        sa.Column("id", key, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("removed_unix_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", key, nullable=False),
        sa.Column("user_id", key, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.Boolean(), nullable=False),
        sa.Column("created_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("last_used_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_unix_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"])
    op.drop_table("sign_ins")
    op.create_table(
        "sign_ins",
        sa.Column("id_sha256", sa.String(length=64), nullable=False),
        sa.Column("token_id", key, nullable=False),
        sa.Column("ends_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name=op.f("fk_sign_ins_token_id_tokens"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id_sha256", name=op.f("pk_sign_ins")),
    )
    op.create_index(op.f("ix_sign_ins_token_id"), "sign_ins", ["token_id"])
    op.create_table(
        "audit",
        sa.Column("id", key, nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=True),
        sa.Column("token", sa.String(length=100), nullable=True),
        sa.Column("action", sa.String(length=50), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("address", sa.String(length=100), nullable=True),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_who"), "audit", ["who"])
    op.create_index(op.f("ix_audit_target"), "audit", ["target"])
    for statement in APPEND_ONLY[op.get_context().dialect.name]:
        op.execute(statement)
    for table in ("jobs", "races"):
        op.add_column(table, sa.Column("owner", sa.String(length=100), nullable=True))


def downgrade() -> None:
    for table in ("jobs", "races"):
        op.drop_column(table, "owner")
    op.drop_table("audit")
    if op.get_context().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_refuse()")
    op.drop_table("sign_ins")
    op.drop_table("tokens")
    op.drop_table("users")
    op.create_table(
        "sign_ins",
        sa.Column("id_hmac", sa.String(length=64), nullable=False),
        sa.Column("ends_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id_hmac", name=op.f("pk_sign_ins")),
    )
