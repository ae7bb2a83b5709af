"""The executor for this machine: a supervisor per attempt, in a session of its own, and its watchdog (`watchdog.py`).

These two and what they start survive the server's end: nothing here dies with the server, and the files
in the attempt's directory say everything that the next server needs. Whichever of the two is killed, nothing of the
attempt is left. Where both are killed in one moment, the server ends what carries the attempt's marker and what
descends from that; a process that cleared its environment and whose ancestors are all dead is not found.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from backend import private
from backend.executors import files, process, scratch
from backend.executors.base import NO_SECRETS, Ended, Executor, Handle, Ingest, LaunchError, Running
from backend.executors.environment import inherited
from backend.executors.local_files import LocalFiles
from backend.executors.process import Identity
from backend.executors.supervised import NAME, Supervised
from backend.lifecycle import Reason
from engine import lab
from engine.checkpoint import preemption
from engine.launch import Launch
from engine.redaction import VARIABLE as SECRETS_VARIABLE

SOURCE = Path(__file__).resolve().parents[2]
"""The folder to import this program from."""
SUPERVISOR = (sys.executable, "-P", "-m", "backend.executors.supervisor")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
logger = logging.getLogger(__name__)


class LocalExecutor(Executor):
    """Processes on this machine."""

    name = NAME

    def __init__(self, command: Sequence[str] = SUPERVISOR) -> None:
        """`command` starts a supervisor; the attempt's directory is added to it."""
        self._command = tuple(command)
        self._children: dict[Identity, subprocess.Popen[bytes]] = {}
        self._told: dict[Identity, Ended] = {}
        """Ends that could not be written down."""

    def launch(
        self,
        launch: Launch,
        ingest: Ingest,
        secrets: Mapping[str, str] = NO_SECRETS,
        token: bytes | None = None,
    ) -> Handle:
        """`token`: the one that the attempt has on its other hosts, where it has some."""
        directory = launch.directory.absolute()
        try:
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
            launch.write(token)
            files.write_ingest(directory, ingest)
            child = self._start(directory, launch.job.cluster.threads, secrets)
        except FileExistsError as error:
            raise LaunchError(
                f"{directory} exists: an attempt is launched once. Make a new attempt"
            ) from error
        except OSError as error:
            raise LaunchError(f"cannot start the supervisor in {directory}: {error}") from error
        who = process.identity(child.pid)
        assert who is not None, "an unreaped child keeps its entry in /proc"
        self._children[who] = child
        return Supervised(directory=directory, identity=who).handle()

    def find(self, directory: Path) -> Handle | None:
        with suppress(
            OSError
        ):  # whoever was about to launch it finds it taken: another server that was stopped
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        if not directory.is_dir() or files.claim(directory, None):
            scratch.remove(directory)
            return None
        who = files.claimed_by(directory)
        return Supervised(directory=directory, identity=who).handle() if who else None

    def files(self, directory: str) -> LocalFiles:
        return LocalFiles(directory)

    def poll(self, handle: Handle) -> Running | Ended:
        attempt = Supervised.of(handle)
        if process.is_alive(attempt.identity):
            if not attempt.directory.is_dir():  # it cannot report any more, and its results have no home
                process.send(attempt.identity, signal.SIGKILL)
            return files.read_progress(attempt.directory)[0]
        left = self._reap(attempt.identity)
        end = files.read_end(attempt.directory)
        if end is None:  # read after it was gone: it cannot come any more
            end = self._told.get(attempt.identity) or self._lost(attempt, left)
            try:
                files.write_end(attempt.directory, end)
            except OSError as error:  # its directory vanished, the disk is full: it has ended all the same
                self._told[attempt.identity] = end
                logger.warning("how the attempt ended is not in its directory: %s", error)
        return end

    def redirect(self, handle: Handle, url: str) -> None:
        attempt = Supervised.of(handle)
        ingest = files.read_ingest(attempt.directory)
        if ingest is not None and ingest.url != url:
            files.write_ingest(attempt.directory, replace(ingest, url=url))

    def preempt(self, handle: Handle) -> None:
        attempt = Supervised.of(handle)
        if attempt.directory.is_dir():
            preemption.ask(attempt.directory)

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        attempt = Supervised.of(handle)
        if not process.is_alive(attempt.identity):
            return
        try:
            files.request_stop(attempt.directory)
        except OSError as error:  # it is ended anyway; only the reason that it gives will be another
            logger.warning("the attempt is not told that it was cancelled: %s", error)
        process.send(attempt.identity, signal.SIGKILL if force else signal.SIGTERM)

    def _start(self, directory: Path, threads: int, secrets: Mapping[str, str]) -> subprocess.Popen[bytes]:
        environment = inherited() | dict(secrets)
        if secrets:
            environment[SECRETS_VARIABLE] = ",".join(secrets)
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
        environment[process.MARKER] = str(directory)
        environment[scratch.VARIABLE] = str(scratch.make(directory))
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(SOURCE), environment.get("PYTHONPATH")])
        )
        output = directory / "logs" / "supervisor.log"
        try:
            private.file(output)
            with output.open("ab") as log:
                return subprocess.Popen(
                    [*self._command, str(directory)],
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError:
            scratch.remove(directory)
            raise

    def _reap(self, who: Identity) -> int | None:
        """Exit code of a supervisor that this server started and that is gone."""
        child = self._children.pop(who, None)
        return None if child is None else child.wait()

    def _lost(self, attempt: Supervised, exit_code: int | None) -> Ended:
        """The supervisor is gone without a word: end what it left, and say what is known."""
        stuck = process.kill_marked(attempt.directory)
        scratch.remove(attempt.directory)
        lab.sweep()
        _, gang = files.read_progress(attempt.directory)
        if gang is not None:  # it vanished while it sent telemetry: the gang's end stands
            return replace(gang, sealed=False)
        now = time.time_ns()
        if not attempt.directory.is_dir():
            reason = Reason.DIRECTORY_LOST
            text = f"{attempt.directory} vanished. {reason.remedy}"
            return Ended(status="failed", reason=reason, message=text, ended_unix_ns=now)
        if files.stop_requested(attempt.directory):
            summary = Reason.CANCELLED.summary
            return Ended(status="cancelled", reason=Reason.CANCELLED, message=summary, ended_unix_ns=now)
        if attempt.identity.boot_id != process.boot_id():
            reason = Reason.MACHINE_RESTARTED
            return Ended(status="failed", reason=reason, message=reason.summary, ended_unix_ns=now)
        how = "" if exit_code is None else f" ({exit_text(exit_code)})"
        text = f"supervisor process {attempt.identity.pid} vanished{how}; what it left was killed"
        if stuck:
            text += f", but {', '.join(str(p.pid) for p in stuck)} did not go"
        reason = Reason.SUPERVISOR_LOST
        return Ended(
            status="failed",
            reason=reason,
            message=f"{text}. {reason.remedy}",
            party="supervisor",
            ended_unix_ns=now,
        )


def exit_text(code: int) -> str:
    """`exit code 3` or `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
