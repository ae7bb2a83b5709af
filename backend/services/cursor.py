"""Keyset pages: a cursor is the key of the last row seen, so that rows that come or go shift nothing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from engine.errors import UserError

_PREFIX = b"1:"
_ID = re.compile("[0-9a-f-]{36}")
LARGEST = 2**62
R = TypeVar("R")


def encode(key: object) -> str:
    """A cursor that continues after `key`."""
    return base64.urlsafe_b64encode(_PREFIX + str(key).encode()).decode().rstrip("=")


def decode(cursor: str) -> str:
    """The key inside. Raises UserError for text that is no cursor of ours."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if raw.startswith(_PREFIX):
            return raw[len(_PREFIX) :].decode()
    except (binascii.Error, UnicodeError, ValueError):
        pass  # said below
    raise refused(cursor)


def decode_id(cursor: str) -> str:
    """The id inside: of a list that is in the order of its ids. Raises UserError for the cursor of another order."""
    found = decode(cursor)
    if not _ID.fullmatch(found):
        raise refused(cursor)
    return found


def decode_numbers(cursor: str, count: int = 1) -> tuple[int, ...]:
    """`count` numbers, separated by colons. Raises UserError where it holds anything else."""
    try:
        numbers = tuple(int(part) for part in decode(cursor).split(":"))
    except ValueError:
        numbers = ()
    if len(numbers) != count or any(abs(number) > LARGEST for number in numbers):
        raise refused(cursor)
    return numbers


def refused(cursor: str) -> UserError:
    """What a cursor of another list, or none at all, is answered with."""
    return UserError(
        "cursor", cursor, "is no cursor of this list", "Take next_cursor of the page before, or leave it out"
    )


def page(
    session: Session,
    query: Select[R],
    key: InstrumentedAttribute[Any],
    *,
    limit: int,
    cursor: str | None,
    newest_first: bool = True,
    read: Callable[[str], Any] = decode_id,
) -> tuple[list[R], str | None]:
    """At most `limit` rows of `query` after `cursor` in the order of `key` (unique), and the cursor of what follows.

    `read` is how the key's value is taken from a cursor.
    """
    if cursor is not None:
        after = read(cursor)
        query = query.where(key < after if newest_first else key > after)
    query = query.order_by(key.desc() if newest_first else key).limit(limit + 1)
    rows = list(session.scalars(query))
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode(getattr(rows[limit - 1], key.key))


def number(cursor: str) -> int:
    """The whole number inside, for `page`."""
    return decode_numbers(cursor)[0]
