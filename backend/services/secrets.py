"""Secrets of jobs: kept, listed by name, removed, and opened for the job that names them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from backend.access.rights import Caller
from backend.db import Database
from backend.db.models import Secret
from backend.schemas import secrets as schema
from backend.services.errors import Conflict, NotFound
from backend.services.known_tokens import check_stands
from backend.services.times import moment
from backend.services.vault import Vault
from engine.errors import UserError
from engine.plan.secrets import check_name
from engine.plan.serde import is_unicode

MOST = 100
"""Of one user."""
LEAST_CHARACTERS, MOST_BYTES = 8, 16_384
"""A shorter one could not be blotted out in logs: too much else looks like it. The kernel takes no much longer ones."""


class Secrets:
    """Those of one database."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    def all(self, caller: Caller) -> list[schema.SecretView]:
        """The caller's own, by name."""
        query = select(Secret).where(Secret.owner == _owner(caller.name)).order_by(Secret.name)
        with self._database.read() as session:
            return [_view(row) for row in session.scalars(query)]

    def keep(self, caller: Caller, name: str, value: str) -> schema.SecretView:
        """Keep one, in place of what has that name. Raises UserError for a name that cannot be an environment variable
        of a job, and for a value that cannot be kept, Conflict for one too many, and Unauthorized or Forbidden where
        the caller may not any more by then."""
        check_name(name)
        _check(value)
        owner = _owner(caller.name)
        sealed = self._vault.seal(_of(owner, name), value)

        def write(session: Session) -> schema.SecretView:
            check_stands(session, caller)
            row = session.scalars(select(Secret).where(Secret.owner == owner, Secret.name == name)).first()
            if row is None:
                count = select(func.count()).select_from(Secret).where(Secret.owner == owner)
                if (session.scalar(count) or 0) >= MOST:
                    raise Conflict(
                        f"{owner or 'this server'} has {MOST} secrets, which is the most. Remove one"
                    )
                row = Secret(owner=owner, name=name)
                session.add(row)
            row.sealed, row.changed_unix_ns = sealed, time.time_ns()
            return _view(row)

        return self._database.writer.run(write)

    def remove(self, caller: Caller, name: str) -> None:
        """Forget one. Raises NotFound."""
        owner = _owner(caller.name)

        def write(session: Session) -> None:
            row = session.scalars(select(Secret).where(Secret.owner == owner, Secret.name == name)).first()
            if row is None:
                raise NotFound(f"no such secret: {name!r}. GET /api/v1/secrets lists yours")
            session.execute(delete(Secret).where(Secret.id == row.id))

        self._database.writer.run(write)

    def check(self, owner: str | None, names: Sequence[str]) -> None:
        """Raises UserError for a name of which `owner`, a user, has no secret."""
        if not names:
            return
        query = select(Secret.name).where(Secret.owner == _owner(owner))
        with self._database.read() as session:
            known = set(session.scalars(query))
        for name in names:
            if name not in known:
                rule = f"{owner or 'this server'} has no secret of that name"
                raise UserError(
                    "secrets", name, rule, f"Keep it first (trainyard secrets set {name}), or leave it out"
                )

    def opened(self, owner: str | None, names: Sequence[str]) -> Mapping[str, str]:
        """What they are. Raises UserError as `check` does, and Conflict where the vault cannot open one."""
        self.check(owner, names)
        if not names:
            return {}
        query = select(Secret).where(Secret.owner == _owner(owner), Secret.name.in_(names))
        with self._database.read() as session:
            sealed = {row.name: row.sealed for row in session.scalars(query)}
        return {name: self._vault.open(_of(_owner(owner), name), text) for name, text in sealed.items()}


def _owner(name: str | None) -> str:
    return name or ""


def _of(owner: str, name: str) -> str:
    return f"secret {owner} {name}"


def _check(value: str) -> None:
    said = f"({len(value)} characters)"
    if len(value) < LEAST_CHARACTERS:
        rule = f"a secret has at least {LEAST_CHARACTERS} characters: a shorter one cannot be blotted out in logs"
        raise UserError("value", said, rule, "Give the whole of it, or use an option of the job")
    if not is_unicode(value) or "\0" in value:
        raise UserError(
            "value", said, "holds what no environment variable holds", "Write valid text without NUL"
        )
    if len(value.encode()) > MOST_BYTES:
        rule = f"a secret has at most {MOST_BYTES} bytes"
        raise UserError("value", said, rule, "Keep a file in the job's own directory, and its password here")


def _view(row: Secret) -> schema.SecretView:
    return schema.SecretView(name=row.name, changed_at=moment(row.changed_unix_ns))
