"""What runs on a node of a Ray cluster: an actor that starts an attempt's parties there and answers for them.

It uses the local executor, in a folder that is the node's own: on its node an attempt is supervised as it is on one
machine. When the actor's process ends, so does what it has started (`host_supervisor.py`). A second actor per node,
which starts nothing, answers for files of attempts that have ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.executors import files
from backend.executors.base import Ended, Handle, Ingest, Running
from backend.executors.host_supervisor import SENT
from backend.executors.local import LocalExecutor
from backend.executors.local_files import LocalFiles
from backend.lifecycle import Reason
from engine.launch import Launch
from engine.regular import read_regular
from engine.telemetry.uploader import UploadEnd, Uploader

FOLDER = "TRAINYARD_NODE_DIR"
"""The variable of a node's environment that says where attempts' files lie on it."""
_QUESTIONS = frozenset({"there", "size", "read", "write", "remove", "ended_steps"})
"""Of `AttemptFiles`, that a server asks."""
_MOST_BYTES = 100_000
_SEAL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """How the parties of one node are."""

    state: Running | Ended
    sent: Mapping[int, int] | None = None
    """Party number to the last sequence number, once the server has all telemetry of this node."""


class Node:
    """The actor's class: every method is one question from the server."""

    supervisor = "backend.executors.host_supervisor"
    """The module that looks after the parties on a node."""

    def __init__(self) -> None:
        self._executor = LocalExecutor()
        self._handle: Handle | None = None

    def free_port(self, address: str) -> int:
        """A port that nobody listens on at this node's `address` now."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, 0), family=family) as listener:
            port: int = listener.getsockname()[1]
            return port

    def lacks(self, paths: Sequence[str]) -> list[str]:
        """Which of these this node does not have."""
        return [path for path in paths if not Path(path).exists()]

    def launch(
        self,
        place: str,
        told: dict[str, Any],
        token: bytes,
        address: str | None,
        ingest: Ingest,
        secrets: Mapping[str, str],
    ) -> None:
        """Start the parties at `address` (None: all) in the folder `place`. Raises LaunchError."""
        holder = (str(os.getpid()), address or "")
        command = (sys.executable, "-P", "-m", self.supervisor, *holder)
        self._executor = LocalExecutor(command)
        launch = Launch.from_dict(told, directory(place))
        self._handle = self._executor.launch(launch, ingest, secrets, token)

    def poll(self, place: str) -> Report:
        """How its parties are."""
        if self._handle is None:
            text = "the server ended while it launched the attempt"
            end = Ended(
                status="failed", reason=Reason.LAUNCH_FAILED, message=text, ended_unix_ns=time.time_ns()
            )
            return Report(state=end)
        state = self._executor.poll(self._handle)
        return Report(state=state, sent=_sent(directory(place)) if isinstance(state, Ended) else None)

    def stop(self, force: bool) -> None:
        """As the local executor's; this and what follows is harmless where nothing was started."""
        if self._handle is not None:
            self._executor.stop(self._handle, force=force)

    def redirect(self, url: str) -> None:
        if self._handle is not None:
            self._executor.redirect(self._handle, url)

    def preempt(self) -> None:
        if self._handle is not None:
            self._executor.preempt(self._handle)

    def ask_files(self, place: str, method: str, *arguments: Any) -> Any:
        """One question of `AttemptFiles`."""
        if method not in _QUESTIONS:
            raise ValueError(f"{method} is no question of an attempt's files")
        return getattr(LocalFiles(str(directory(place))), method)(*arguments)

    def send(self, place: str, url: str, timeout_s: float) -> UploadEnd | None:
        """Send what is left in the spool of this node; None where nothing was launched."""
        ingest = files.read_ingest(directory(place))
        if ingest is None:
            return None
        uploader = Uploader(directory(place) / "spool", url, ingest.token, attempt=ingest.attempt)
        return uploader.finish(timeout_s=timeout_s, seal=False)

    def seal(self, place: str, last_sequences: Mapping[int, int], url: str | None = None) -> UploadEnd | None:
        """Seal the attempt with what all nodes have sent, at `url` or where this node's telemetry goes."""
        ingest = files.read_ingest(directory(place))
        if ingest is None:
            return None
        uploader = Uploader(
            directory(place) / "spool", url or ingest.url, ingest.token, attempt=ingest.attempt
        )
        uploader.finish(timeout_s=_SEAL_S, seal=False)
        return uploader.seal(last_sequences)


def directory(place: str) -> Path:
    """Of an attempt, on this node. Raises ValueError for a place that is not below the node's folder."""
    if Path(place).is_absolute() or ".." in Path(place).parts:
        raise ValueError(f"{place!r} is no attempt's place")
    return Path(os.environ.get(FOLDER) or Path.home() / ".local/share/trainyard-node") / place


def _sent(folder: Path) -> dict[int, int] | None:
    try:
        found = json.loads(read_regular(folder / SENT, _MOST_BYTES, root=folder))
        return {int(party): int(last) for party, last in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return None
