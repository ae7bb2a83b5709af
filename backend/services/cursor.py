"""Opaque cursors for keyset pages: the key of the last row seen, so that rows that come or go shift
nothing."""

from __future__ import annotations

import base64
import binascii

from engine.errors import UserError

_PREFIX = b"1:"


def encode(key: str) -> str:
    """A cursor that continues after `key`."""
    return base64.urlsafe_b64encode(_PREFIX + key.encode()).decode().rstrip("=")


def decode(cursor: str) -> str:
    """The key inside. Raises UserError for text that is no cursor of ours."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if raw.startswith(_PREFIX):
            return raw[len(_PREFIX) :].decode()
    except (binascii.Error, UnicodeError, ValueError):
        pass  # said below
    raise UserError(
        "cursor", cursor, "is no cursor of this list", "Take next_cursor of the page before, or leave it out"
    )
