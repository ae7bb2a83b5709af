"""What the server and an attempt's supervisor tell each other, through files in the attempt's directory.

  ingest.json      server: where telemetry goes, and the token; mode 0600; a later server writes its own address
  supervisor.json  supervisor: who it is; written once, by whoever is first (see `claim`)
  progress.json    supervisor: the phase, and how the gang ended while telemetry is still being sent
  stop.json        server: the SIGTERM that comes is a person's cancel
  end.json         supervisor: how the attempt ended; or the server, where the supervisor vanished

Every file appears whole: written under another name, then renamed or linked.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backend.executors.base import Ended, Ingest, Running
from backend.executors.process import Identity
from backend.lifecycle import Reason
from engine.runtime.launch import write_json

SUPERVISOR = "supervisor.json"
PATIENCE_S = 600.0
"""How long a supervisor waits for room to say how its attempt stands: what it does not say is lost."""
ABANDONED = {"abandoned": True}


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
    """None where the file does not exist."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def write_ingest(directory: Path, ingest: Ingest) -> None:
    """Readable by this user only: it holds the token."""
    temporary = directory / f"ingest.json.{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(ingest), file)
        temporary.replace(directory / "ingest.json")
    finally:
        temporary.unlink(missing_ok=True)


def read_ingest(directory: Path) -> Ingest | None:
    data = read(directory / "ingest.json")
    return Ingest(**data) if data else None


def server_url(directory: Path) -> str | None:
    """Where telemetry goes now, whatever else a server of another version wrote there."""
    data = read(directory / "ingest.json") or {}
    return data.get("url")


def claim(directory: Path, who: Identity | None) -> bool:
    """Take the attempt: its supervisor says who it is, or a later server (None) that it never starts.

    Exactly one of them gets it: a link, unlike a rename, does not replace what is there.
    """
    temporary = directory / f"{SUPERVISOR}.{secrets.token_hex(8)}.tmp"
    temporary.write_text(json.dumps(ABANDONED if who is None else asdict(who)), encoding="utf-8")
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
    return Identity(**data) if data and data != ABANDONED else None


def write_progress(directory: Path, progress: Running | Ended) -> None:
    """`Ended` here means the gang: telemetry is still being sent."""
    if isinstance(progress, Ended):
        write_json(directory / "progress.json", {"phase": "stopping", "end": asdict(progress)})
    else:
        write_json(directory / "progress.json", {"phase": progress.phase})


def read_progress(directory: Path) -> tuple[Running, Ended | None]:
    """The phase, and how the gang ended where it has."""
    data = read(directory / "progress.json") or {"phase": "starting"}
    if "end" not in data:
        return Running(phase=data["phase"]), None
    end = _ended(data["end"])
    return Running(phase="stopping", outcome=end.status, reason=end.reason, message=end.message), end


def request_stop(directory: Path) -> None:
    (directory / "stop.json").write_text("{}", encoding="utf-8")


def stop_requested(directory: Path) -> bool:
    return (directory / "stop.json").exists()


def write_end(directory: Path, end: Ended) -> None:
    write_json(directory / "end.json", asdict(end))


def read_end(directory: Path) -> Ended | None:
    data = read(directory / "end.json")
    return _ended(data) if data else None


def _ended(data: dict[str, Any]) -> Ended:
    return Ended(**{**data, "reason": Reason(data["reason"])})
