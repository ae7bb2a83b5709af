"""The supervisor of one attempt: `python -m backend.executors.supervisor DIRECTORY`.

Starts the gang, sends its telemetry, waits, and writes how it ended. It outlives the server and depends on
nothing but its directory. As a subreaper it inherits whatever its descendants leave behind, and kills it
before it reports: after end.json no process of the attempt is left but its watchdog, which then ends, too. It never
loads torch.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from backend.executors import files, process, redaction, scratch, watchdog
from backend.executors.base import Ended, Running
from backend.executors.log_limit import LogLimit
from backend.executors.log_times import LogTimes
from backend.lifecycle import Reason
from engine.checkpoint.preemption import preempted_step
from engine.errors import OutOfMemoryError
from engine.gang.beginning import StoppedError
from engine.gang.gang import Gang, GangEnd
from engine.launch import Launch
from engine.redaction import blotted, from_environment
from engine.telemetry.uploader import UploadEnd, Uploader

POLL_S = 0.2
"""How long a stop may go unnoticed; a process that ends is noticed at once."""
MESSAGE_CHARACTERS = 4000
logger = logging.getLogger(__name__)


class Supervisor:
    """Sees one attempt through."""

    def __init__(self, directory: Path, make_gang: Callable[[Launch], Gang]) -> None:
        self._directory = directory
        self._make_gang = make_gang
        self._stop = threading.Event()
        self._started_unix_ns: int | None = None
        self._secrets = from_environment()
        self._blots = redaction.Redaction((), ())

    def run(self) -> bool:
        """Until the attempt has ended. False: the attempt belongs to somebody else, and nothing was started.
        Must be called on the main thread, once per process."""
        if not files.claim(self._directory, process.identity(os.getpid())):
            logger.error("the attempt in %s is taken or abandoned: nothing to do", self._directory)
            return False
        watchdog.split(self._stop.set, partial(scratch.remove, self._directory))
        end = self._supervise()
        files.insist(partial(files.write_end, self._directory, end))
        return True

    def _supervise(self) -> Ended:
        uploader = None
        try:
            launch = Launch.read(self._directory)
            ingest = files.read_ingest(self._directory)
            if ingest is not None:
                uploader = Uploader(
                    self._directory / "spool",
                    ingest.url,
                    ingest.token,
                    attempt=ingest.attempt,
                    moved=partial(files.server_url, self._directory),
                )
            end = self._run_gang(launch)
        except Exception as error:  # whatever it is, the attempt must end, with that as its reason
            logger.exception("the supervisor failed")
            end = self._ended(
                "failed", Reason.SUPERVISOR_FAILED, _text(error), party="supervisor", error=_error(error)
            )
        for stuck in process.kill_descendants():
            logger.error("process %d did not end after SIGKILL", stuck.pid)
        self._blots.hold()
        if uploader is None or ingest is None:
            return end
        files.insist(partial(files.write_progress, self._directory, end))
        outcome = self._finish(uploader, ingest.drain_s)
        if outcome.problem is not None:
            logger.warning("telemetry is left in the spool: %s", outcome.problem)
        return replace(end, sealed=outcome.sealed)

    def _finish(self, uploader: Uploader, timeout_s: float) -> UploadEnd:
        """Send what is left."""
        return uploader.finish(timeout_s=timeout_s)

    def _run_gang(self, launch: Launch) -> Ended:
        logs = [launch.log(party) for party in launch.parties]
        self._blots = redaction.Redaction([*logs, self._directory / "logs" / "supervisor.log"], self._secrets)
        gang = self._make_gang(launch)
        try:
            gang.start(self._stop.is_set)
        except StoppedError:
            return self._translate(gang.stop())
        except Exception as error:  # user code and the operating system both have a say here
            logger.exception("the gang did not start")
            return self._ended("failed", Reason.START_FAILED, _text(error), error=_error(error))
        self._started_unix_ns = time.time_ns()
        files.insist(partial(files.write_progress, self._directory, Running(phase="running")))
        end, times, limit = None, LogTimes(logs), LogLimit(logs)
        try:
            while end is None:
                end = gang.stop() if self._stop.is_set() else gang.wait(POLL_S)
                times.note(time.time_ns() // 1_000_000, last=end is not None)
                limit.hold()
                self._blots.hold()
        finally:
            gang.stop()  # whatever happens here, neither processes nor hosts are left
        return self._translate(end)

    def _translate(self, end: GangEnd) -> Ended:
        if end.status == "succeeded":
            if (step := preempted_step(self._directory)) is not None:
                text = f"It made room for others, and ended with the checkpoint of step {step}"
                return self._ended("preempted", Reason.PREEMPTED, text)
            done = Reason.COMPLETED.summary
            if end.lost:
                done = f"The job was finished, although workers were lost: {'; '.join(end.lost)}"
            return self._ended("succeeded", Reason.COMPLETED, done)
        if end.status == "stopped":
            asked = files.stop_requested(self._directory)
            reason = Reason.CANCELLED if asked else Reason.TERMINATED
            return self._ended("cancelled" if asked else "failed", reason, reason.summary)
        reason = Reason.PROCESS_FAILED
        if end.error is not None and end.error["type"] == OutOfMemoryError.__name__:
            reason = Reason.OUT_OF_MEMORY
        elif end.exit_code is not None and end.exit_code < 0 and end.error is None:
            reason = Reason.PROCESS_KILLED
        return self._ended(
            "failed",
            reason,
            end.reason,
            party=end.party,
            exit_code=end.exit_code,
            error=end.error,
        )

    def _ended(self, status: Any, reason: Reason, message: str, **details: Any) -> Ended:
        return Ended(
            status=status,
            reason=reason,
            message=blotted(message, self._secrets)[:MESSAGE_CHARACTERS],
            started_unix_ns=self._started_unix_ns,
            ended_unix_ns=time.time_ns(),
            **blotted(details, self._secrets),
        )


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _error(error: BaseException) -> dict[str, Any]:
    trace = "".join(traceback.format_exception(error))
    return {"type": type(error).__name__, "message": str(error), "traceback": trace}


def main(make_gang: Callable[[Launch], Gang], kind: type[Supervisor] = Supervisor) -> None:
    """Run a supervisor on the directory that the command line names last, and end the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    done = kind(Path(sys.argv[-1]), make_gang).run()
    logging.shutdown()
    os._exit(0 if done else 1)  # end.json is written: nothing that runs at exit may delay the end


if __name__ == "__main__":
    main(Gang)
