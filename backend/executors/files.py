"""What the server and an attempt's supervisor tell each other, through files in the attempt's directory.

  ingest.json      server: where telemetry goes, and the token; mode 0600; a later server writes its own address
  supervisor.json  supervisor: who it is; written once, by whoever is first (see `claim`)
  progress.json    supervisor: the phase, and how the gang ended while telemetry is still being sent
  preempt.json     server: end with a checkpoint; preempted.json: worker 0 has (`engine/checkpoint/preemption.py`)
  stop.json        server: the SIGTERM that comes is a person's cancel
  end.json         supervisor: how the attempt ended; or the server, where the supervisor vanished

Every file appears whole: written under another name, then renamed or linked.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from backend.executors.base import Ended, Ingest, Running
from backend.executors.process import Identity
from backend.lifecycle import Reason
from engine.errors import UserError
from engine.launch import write_json
from engine.plan.serde import from_plain
from engine.regular import NotRegularError, read_regular

SUPERVISOR = "supervisor.json"
PATIENCE_S = 600.0
"""How long a supervisor waits for room to say how its attempt stands: what it does not say is lost."""
T = TypeVar("T")
ABANDONED = {"abandoned": True}
MOST_BYTES = 2**24
"""Of a file that is read."""
logger = logging.getLogger(__name__)


def insist(write: Callable[[], None]) -> None:
    """Write, and on a disk that is full try again for a while. Raises OSError where it stays full."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT} or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def read(path: Path) -> dict[str, Any] | None:
    """None where the file does not exist, or is none of ours: a user's code may write here, and what it does must not
    keep the attempt from its end."""
    try:
        found = json.loads(read_regular(path, MOST_BYTES, root=path.parent))
    except FileNotFoundError:
        return None
    except (NotRegularError, ValueError, RecursionError) as error:
        _warn(f"{path} is not read: {error}")
        return None
    return found if isinstance(found, dict) else None


def write_ingest(directory: Path, ingest: Ingest) -> None:
    """Readable by this user only: it holds the token."""
    write_json(directory / "ingest.json", asdict(ingest))


def read_ingest(directory: Path) -> Ingest | None:
    data = read(directory / "ingest.json")
    return _made(Ingest, data) if data else None


def server_url(directory: Path) -> str | None:
    """Where telemetry goes now, whatever else a server of another version wrote there."""
    data = read(directory / "ingest.json") or {}
    return data.get("url")


def claim(directory: Path, who: Identity | None) -> bool:
    """Take the attempt: its supervisor says who it is, or a later server (None) that it never starts.

    Exactly one of them gets it: a link, unlike a rename, does not replace what is there.
    """
    temporary = directory / f"{SUPERVISOR}.{secrets.token_hex(8)}.tmp"
    write_json(temporary, ABANDONED if who is None else asdict(who))
    try:
        os.link(temporary, directory / SUPERVISOR)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def claimed_by(directory: Path) -> Identity | None:
    """The supervisor that took the attempt; None: none has, or it was abandoned."""
    data = read(directory / SUPERVISOR)
    return _made(Identity, data) if data and data != ABANDONED else None


def write_progress(directory: Path, progress: Running | Ended) -> None:
    """`Ended` here means the gang: telemetry is still being sent."""
    if isinstance(progress, Ended):
        write_json(directory / "progress.json", {"phase": "stopping", "end": asdict(progress)})
    else:
        write_json(directory / "progress.json", {"phase": progress.phase})


def read_progress(directory: Path) -> tuple[Running, Ended | None]:
    """The phase, and how the gang ended where it has."""
    data = read(directory / "progress.json")
    if data is None:
        return Running(phase="starting"), None
    if (end := _ended(data.get("end"))) is not None:
        return Running(phase="stopping", outcome=end.status, reason=end.reason, message=end.message), end
    return _made(Running, data) or Running(phase="starting"), None


def request_stop(directory: Path) -> None:
    write_json(directory / "stop.json", {})


def stop_requested(directory: Path) -> bool:
    return (directory / "stop.json").exists()


def write_end(directory: Path, end: Ended) -> None:
    write_json(directory / "end.json", asdict(end))


def read_end(directory: Path) -> Ended | None:
    return _ended(read(directory / "end.json"))


def _ended(data: Any) -> Ended | None:
    if not isinstance(data, dict) or data.get("reason") not in list(Reason):
        return None
    return _made(Ended, {**data, "reason": Reason(data["reason"])})


def _made(kind: type[T], data: dict[str, Any]) -> T | None:
    """None for what does not fit: another version wrote it, or a user's code."""
    try:
        return from_plain(kind, data)
    except UserError as error:
        _warn(f"a file of an attempt is not as it must be: {error}")
        return None


@lru_cache(maxsize=1_000)
def _warn(text: str) -> None:
    """Once: files are read several times a second."""
    logger.warning("%s", text)
