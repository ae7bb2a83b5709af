"""One server per data directory: two would schedule the same jobs twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import UserError

NAME = "server.lock"


@contextmanager
def held(data_dir: Path, address: str) -> Iterator[None]:
    """Hold the directory while the block runs. The kernel gives it free when the process ends, however it
    ends.

    Raises UserError naming the server that holds it, or where the directory cannot be written.
    """
    path = data_dir / NAME
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # logs and results are nobody else's
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise UserError(
            "data_dir",
            str(data_dir),
            f"cannot be written ({error.strerror})",
            "Choose another with TRAINYARD_DATA_DIR",
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                "data_dir",
                str(data_dir),
                f"is in use by another server ({file.read().strip() or 'just starting'})",
                "Stop that one, or choose another directory with TRAINYARD_DATA_DIR",
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} at {address}\n")
        file.flush()
        yield
