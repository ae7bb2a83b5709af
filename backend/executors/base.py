"""The contract of an executor: start an attempt's processes, say how they are, stop them.

An executor keeps nothing in memory that it needs later: a handle is stored in the database, and the executor
of the next server's life goes on with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from backend.executors.attempt_files import AttemptFiles
from backend.lifecycle import Outcome, Reason
from engine.errors import UserError
from engine.launch import Launch

NO_SECRETS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Ingest:
    """Where an attempt's telemetry goes."""

    url: str
    """The server's address, e.g. `http://127.0.0.1:8000`."""
    attempt: int
    """The attempt's id."""
    token: str
    """The attempt's own ingest-only token; the database holds its hash only."""
    drain_s: float = 30.0
    """How long to go on sending after the processes ended, when the server does not answer. What is left then
    stays in the spool, and the server takes it from there."""


@dataclass(frozen=True, kw_only=True)
class Handle:
    """What an executor needs to find an attempt again. Equal handles mean the same launch."""

    executor: str
    """Name of the executor that made it; no other can read it."""
    data: dict[str, Any]
    """That executor's own words, in JSON's types: the database keeps them, and nobody else reads them."""

    def check_is_of(self, executor: str) -> None:
        """Raises UserError where another executor has launched the attempt."""
        if self.executor != executor:
            raise UserError(
                "handle.executor",
                self.executor,
                f"the executor `{executor}` reads handles of its own only",
                "Start the server with the executor that launched the attempt",
            )


@dataclass(frozen=True, kw_only=True)
class Running:
    """The attempt has not ended."""

    phase: Literal["starting", "running", "stopping"]
    """`stopping`: how it ends is settled, processes are ending and telemetry is being sent."""
    outcome: Outcome | None = None
    """Of phase `stopping`: how it is going to end."""
    reason: Reason | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The attempt has ended and none of its processes is left."""

    status: Outcome
    reason: Reason
    message: str
    """For a person: on failure the failed process's own last error."""
    party: str | None = None
    """The process that failed first, e.g. `worker 1`."""
    exit_code: int | None = None
    """Of that process; negative: the signal that killed it."""
    error: dict[str, Any] | None = None
    """What that process left about its error."""
    sealed: bool = False
    """All telemetry has arrived. False: the rest is in the attempt's spool."""
    started_unix_ns: int | None = None
    """When all processes were up; None where they never were."""
    ended_unix_ns: int
    """Of the last process."""


class LaunchError(RuntimeError):
    """The attempt could not be started, and nothing of it runs."""


class Executor(ABC):
    """Starts attempts, follows them, stops them. Methods are called from one thread and return soon."""

    name: str

    def outage(self) -> str | None:
        """Why nothing can be launched now, whatever it is, for a person; None: it can. Jobs wait until then. Waits for
        nothing, and is asked again and again."""
        return None

    @abstractmethod
    def launch(self, launch: Launch, ingest: Ingest, secrets: Mapping[str, str] = NO_SECRETS) -> Handle:
        """Write the attempt's directory and start what looks after it. Does not wait for the gang. `secrets`: variables
        of the environment of the attempt's processes. They are written nowhere, and blotted out in logs and messages.

        Raises LaunchError when that fails; then nothing runs. What fails later is the attempt's end; where the server's
        own end broke it off its reason is LAUNCH_INTERRUPTED, and the job queues again. An attempt is launched once: a
        second launch of the same directory raises LaunchError and leaves the first alone.
        """

    @abstractmethod
    def find(self, directory: Path) -> Handle | None:
        """The handle of an attempt whose launch was interrupted by the server's end.

        None: it was never started, and from now on never will be. Waits for nothing.
        """

    @abstractmethod
    def files(self, directory: str) -> AttemptFiles:
        """The files of the attempt with this directory, which is what its row says: an attempt that was never launched
        has no handle, and one whose machine is gone still has a row. Looks at nothing, and raises nothing. From any
        thread."""

    @abstractmethod
    def poll(self, handle: Handle) -> Running | Ended:
        """How the attempt is.

        Never raises for an attempt that is gone: that is an `Ended` like any other; once answered, the same
        answer is given for ever. When what looked after it vanished, poll ends what is left of its processes
        before it answers. This and the methods below raise UserError for a handle of another executor, or one whose
        data another version of this program wrote.
        """

    @abstractmethod
    def redirect(self, handle: Handle, url: str) -> None:
        """Telemetry goes to the server at `url` from now on: a restarted server says where it is. Harmless where
        it is there already, and for an attempt that has ended. Raises OSError where it cannot be told."""

    @abstractmethod
    def preempt(self, handle: Handle) -> None:
        """Ask the attempt to end with a checkpoint as soon as it can, and return at once: then it ends as preempted.
        Twice is harmless; so is one that has ended, or ends otherwise before it can. Raises OSError where it cannot be
        told."""

    @abstractmethod
    def stop(self, handle: Handle, *, force: bool = False) -> None:
        """Ask the attempt to end as cancelled, and return at once. Twice is harmless; so is an ended one.
        `force` ends everything without asking, for an attempt that did not answer in time."""
