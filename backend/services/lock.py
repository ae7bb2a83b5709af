"""One server per data directory, and per SQLite: two would schedule the same jobs twice.

Servers on one PostgreSQL share what there is to do: `backend/scheduler/membership.py`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backend import private
from backend.db.engine import sqlite_file
from backend.db.trouble import check_file
from engine.errors import UserError

NAME = "server.lock"


@contextmanager
def held(data_dir: Path, address: str) -> Iterator[None]:
    """Hold the directory while the block runs. The kernel gives it free when the process ends, however it
    ends.

    Raises UserError naming the server that holds it, or where the directory cannot be written.
    """
    folder = data_dir
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("cache", "cache/descriptions", "jobs"):  # the directory itself may be somebody's home
            folder = data_dir / name
            private.folder(folder)
    except OSError as error:
        raise _unwritable("data_dir", folder, error) from None
    with _locked(data_dir / NAME, "data_dir", data_dir, address):
        yield


@contextmanager
def database_held(url: str, address: str) -> Iterator[None]:
    """The same for a SQLite, which servers with different directories may share by mistake: a lock beside its file.
    Raises DatabaseUnavailableError for a file that is no database."""
    file = sqlite_file(url)
    if file is None:
        yield
        return
    check_file(file)  # beside what is no database nothing of ours is left
    with _locked(file.with_name(f"{file.name}.lock"), "database_url", file, address):
        yield


def _holder(address: str) -> str:
    return f"process {os.getpid()} at {address}"


def _in_use(field: str, value: str, holder: str) -> UserError:
    return UserError(
        field,
        value,
        f"is in use by another server ({holder or 'just starting'})",
        f"Stop that one, or choose another with TRAINYARD_{field.upper()}",
    )


def _unwritable(field: str, value: Path, error: OSError) -> UserError:
    rule = f"cannot be written ({error.strerror})"
    return UserError(field, str(value), rule, f"Choose another with TRAINYARD_{field.upper()}")


@contextmanager
def _locked(path: Path, field: str, value: Path, address: str) -> Iterator[None]:
    try:
        # Whoever opens a pipe waits; behind a link is somebody's file, and what is written here takes its place.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(errno.EINVAL, f"{path.name} is no file")
        private.file(path)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise _unwritable(field, value, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _in_use(field, str(value), file.read().strip()) from None
        file.truncate(0)
        with suppress(OSError):  # on a full disk the lock holds, only who has it is not written
            os.write(file.fileno(), f"{_holder(address)}\n".encode())
        yield
