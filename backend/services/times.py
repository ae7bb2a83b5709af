"""Times for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(unix_ns: int) -> datetime:
    """A point in time (UTC, to the microsecond) of nanoseconds since 1970."""
    return _EPOCH + timedelta(microseconds=unix_ns // 1000)


def moment_or_none(unix_ns: int | None) -> datetime | None:
    """The same, where it may not have happened yet."""
    return None if unix_ns is None else moment(unix_ns)
