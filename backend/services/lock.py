"""One server per data directory and per SQLite file: two would schedule the same jobs twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import UserError

NAME = "server.lock"


@contextmanager
def held(data_dir: Path, address: str) -> Iterator[None]:
    """Hold the directory while the block runs. The kernel gives it free when the process ends, however it
    ends.

    Raises UserError naming the server that holds it, or where the directory cannot be written.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # logs and results are nobody else's
    except OSError as error:
        raise _unwritable("data_dir", data_dir, error) from None
    with _locked(data_dir / NAME, "data_dir", data_dir, address):
        yield


@contextmanager
def database_held(file: Path, address: str) -> Iterator[None]:
    """The same for a database's file, which servers with different directories may share by mistake."""
    with _locked(file.with_name(f"{file.name}.lock"), "database_url", file, address):
        yield


def _unwritable(field: str, value: Path, error: OSError) -> UserError:
    rule = f"cannot be written ({error.strerror})"
    return UserError(field, str(value), rule, f"Choose another with TRAINYARD_{field.upper()}")


@contextmanager
def _locked(path: Path, field: str, value: Path, address: str) -> Iterator[None]:
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise _unwritable(field, value, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                field,
                str(value),
                f"is in use by another server ({file.read().strip() or 'just starting'})",
                f"Stop that one, or choose another with TRAINYARD_{field.upper()}",
            ) from None
        file.truncate(0)
        with suppress(OSError):  # on a full disk the lock holds, only who has it is not written
            os.write(file.fileno(), f"process {os.getpid()} at {address}\n".encode())
        yield
