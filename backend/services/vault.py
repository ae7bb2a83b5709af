"""What the database keeps and nobody who reads the database is to have: encrypted with a key that lies elsewhere.

The key is a file that only the server's user reads. It is made when something is sealed first. Encryption is Fernet's
(AES-128 in CBC mode with an HMAC, of the library `cryptography`). What is sealed says what it is of, so that nobody who
can write to the database can put one thing into another's place.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from backend import private
from backend.db import Database
from backend.db.models import Secret, Webhook
from backend.services.errors import Conflict

if TYPE_CHECKING:  # loaded with the first secret: most servers have none
    from cryptography.fernet import Fernet

VARIABLE = "TRAINYARD_SECRETS_KEY_FILE"


class Vault:
    """Seals and opens. Safe to use from many threads."""

    def __init__(self, file: Path, holds: Callable[[], bool] = lambda: False) -> None:
        """`holds`: whether something is stored that was sealed before."""
        self._file = file
        self._holds = holds
        self._lock = threading.Lock()
        self._key: Fernet | None = None

    def seal(self, of: str, text: str) -> str:
        """`text`, encrypted. `of`: what it is of, as `secret ada HF_TOKEN`. Raises Conflict where there is no key and
        none can be made."""
        return self._fernet(make=True).encrypt(json.dumps([of, text]).encode()).decode()

    def open(self, of: str, sealed: str) -> str:
        """What was sealed. Raises Conflict where that was done with another key, or it is of something else."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            found, text = json.loads(self._fernet(make=False).decrypt(sealed.encode()))
        except InvalidToken:
            raise Conflict(
                f"{of} was encrypted with another key than that of {self._file}. Put that key back (servers that share "
                f"a database need one: {VARIABLE} names it), or keep it anew"
            ) from None
        if found != of:
            raise Conflict(
                f"what is stored for {of} is {found}: somebody has changed the database. Keep it anew"
            )
        return str(text)

    def _fernet(self, *, make: bool) -> Fernet:
        from cryptography.fernet import Fernet  # noqa: PLC0415

        with self._lock:
            if self._key is None:
                try:
                    if make and not self._file.exists():
                        if self._holds():
                            raise Conflict(
                                f"the key of secrets, {self._file}, is not there, and what is stored was encrypted with"
                                f" it. Put it back, or name it with {VARIABLE}; or remove all secrets and webhooks, and"
                                " keep them anew"
                            )
                        _make(self._file)
                    private.close(self._file)
                    self._key = Fernet(self._file.read_bytes().strip())
                except OSError as error:
                    rule = f"the key of secrets, {self._file}, cannot be read ({error.strerror})"
                    raise Conflict(f"{rule}. Put it back, or name it with {VARIABLE}") from None
                except ValueError:
                    rule = f"{self._file} holds no key: it has 32 bytes in URL-safe base64"
                    raise Conflict(f"{rule}. Put the right file back, or name it with {VARIABLE}") from None
            return self._key


def anything_sealed(database: Database) -> bool:
    """Whether the database holds a secret or a webhook."""
    with database.read() as session:
        return any(
            session.scalars(select(kind.id).limit(1)).first() is not None for kind in (Secret, Webhook)
        )


def _make(file: Path) -> None:
    """A fresh key. The file appears whole, and stays where another server has made one meanwhile."""
    from cryptography.fernet import Fernet  # noqa: PLC0415

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(Fernet.generate_key() + b"\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(temporary, file)
        except FileExistsError:
            return
    finally:
        temporary.unlink()
