"""Who did what. Rows are added and never changed, and go when they are old, which the database itself sees to."""

from __future__ import annotations

from sqlalchemy import DDL, String, event
from sqlalchemy.orm import Mapped, mapped_column

from backend.access.kept import LEAST_DAYS
from backend.db.models.base import Base, BigInt, JsonObject, RowId

TARGET_LENGTH = 200


class AuditEntry(Base):
    """One thing that somebody did, or wanted to do."""

    __tablename__ = "audit"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at_unix_ns: Mapped[BigInt]
    who: Mapped[str | None] = mapped_column(String(100), index=True)
    """A user's name. None: whoever reached a server that asked nobody."""
    token: Mapped[str | None] = mapped_column(String(100))
    """What the token that they showed, or signed in with, is called."""
    action: Mapped[str] = mapped_column(String(50))
    """The operation's id in the API's document."""
    target: Mapped[str] = mapped_column(String(TARGET_LENGTH), index=True)
    """`jobs/<id>`, `users/<name>`; what was made, where something was made."""
    address: Mapped[str | None] = mapped_column(String(100))
    """Where the request came from."""
    status: Mapped[int]
    """What the service answered, as HTTP has it."""
    details: Mapped[JsonObject | None]
    """`schemas.people.AuditDetails`: what was given, or taken; None: there is no more to say."""


_YOUNG = {
    dialect: f"OLD.at_unix_ns > ({now} - {LEAST_DAYS * 86_400}) * 1000000000"
    for dialect, now in (
        ("sqlite", "CAST(strftime('%s', 'now') AS INTEGER)"),
        ("postgresql", "extract(epoch FROM now())"),
    )
}
APPEND_ONLY = {
    "sqlite": tuple(
        f"CREATE TRIGGER audit_no_{what} ON audit {when}BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
        for what, when in (
            ("update BEFORE UPDATE", ""),
            ("delete BEFORE DELETE", f"WHEN {_YOUNG['sqlite']} "),
            # To replace a row deletes it without that trigger.
            ("replace BEFORE INSERT", "WHEN NEW.id IN (SELECT id FROM audit) "),
        )
    ),
    "postgresql": (
        "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$",
        "CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit FOR EACH ROW "
        f"WHEN ({_YOUNG['postgresql']}) EXECUTE FUNCTION audit_refuse()",
        "CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
    ),
}
"""What makes a database refuse to change a row of it, or to delete a young one; migration 0018 runs the same."""
for _dialect, _statements in APPEND_ONLY.items():
    for _statement in _statements:
        event.listen(
            AuditEntry.__table__,
            "after_create",
            DDL(_statement.replace("%", "%%")).execute_if(dialect=_dialect),
        )
