"""The database: tables, migrations, sessions that read, and the one writer."""

from backend.db.ids import uuid7
from backend.db.migrate import SchemaError
from backend.db.session import Database
from backend.db.trouble import DatabaseUnavailableError
from backend.db.writer import MISSED, Writer, WriterError, notify

__all__ = [
    "MISSED",
    "Database",
    "DatabaseUnavailableError",
    "SchemaError",
    "Writer",
    "WriterError",
    "notify",
    "uuid7",
]
