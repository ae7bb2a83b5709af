"""With which step an attempt begins: the one behind the job's newest checkpoint that is whole, else behind the other
job's checkpoint that the job begins with, else step 0. All of its processes read the same."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

from engine.checkpoint.start import begun_step
from engine.checkpoint.store import DamagedError
from engine.errors import UserError
from engine.launch import Launch

_LOOK_S = 0.2
"""How long a stop may go unnoticed."""
logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """Somebody asked the attempt to stop before it began."""


def begin(launch: Launch, stopped: Callable[[], bool]) -> None:
    """Before any process of the attempt starts. It may take minutes where another job's checkpoint is put together;
    `stopped()`: whether that is to end now. Raises UserError where the other job's checkpoint cannot be used, and
    StoppedError."""
    if (step := launch.find_cut()) is not None:
        launch.go_on_from(step)
        logger.info("the attempt goes on from the checkpoint of step %d", step)
    elif launch.start is not None:
        step = _begun(launch)
        if step is None:
            _put_together(launch, stopped)
            step = begun_step(launch.checkpoint_folder)
            assert step is not None
        launch.go_on_from(step, another=True)
        logger.info("the attempt begins with the checkpoint of step %d of job %s", step, launch.start.job)


def _begun(launch: Launch) -> int | None:
    """The step of what an earlier attempt has put together: the other job may be gone since. None: it has to be put
    together."""
    try:
        return begun_step(launch.checkpoint_folder)
    except DamagedError as error:
        logger.warning("what the job begins with is put together again: %s", error)
        return None


def _put_together(launch: Launch, stopped: Callable[[], bool]) -> None:
    """In a process of its own: who starts the gang loads no torch."""
    logger.info("what the job begins with is put together")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.runtime.start", str(launch.directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            while (code := _code(process)) is None:
                if stopped():
                    raise StoppedError("it was stopped while what the job begins with was put together")
        finally:
            process.kill()
            process.wait()
        if code:
            errors.seek(0)
            raise _refusal(code, errors.read().decode(errors="replace"))


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code; None where it goes on."""
    try:
        return process.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _refusal(code: int, errors: str) -> Exception:
    """Of the last line on the process's standard error."""
    last = errors.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
        return UserError(found["field"], found["value"], found["rule"], found["remedy"])
    except (ValueError, KeyError, TypeError):
        why = last
        if code < 0:
            why = f"{signal.Signals(-code).name} ended the process that did it, which holds the model and what the"
            why += " optimizer keeps of it in memory"
        return RuntimeError(f"the checkpoint that the job begins with could not be put together: {why}")
