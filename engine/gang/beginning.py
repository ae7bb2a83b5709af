"""With which step an attempt begins: the one behind the job's newest checkpoint that is whole, else behind the other
job's checkpoint that the job begins with, else step 0. All of its processes read the same."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys

from engine.checkpoint.start import begun_step
from engine.errors import UserError
from engine.launch import Launch

logger = logging.getLogger(__name__)


def begin(launch: Launch) -> None:
    """Before any process of the attempt starts. Raises UserError where the other job's checkpoint cannot be used."""
    if (step := launch.find_cut()) is not None:
        launch.go_on_from(step)
        logger.info("the attempt goes on from the checkpoint of step %d", step)
    elif launch.start is not None:
        step = _start(launch)
        launch.go_on_from(step, another=True)
        logger.info("the attempt begins with the checkpoint of step %d in %s", step, launch.start.directory)


def _start(launch: Launch) -> int:
    """Put together what the job begins with, unless an earlier attempt has: the other job may be gone since."""
    step = begun_step(launch.checkpoint_folder)
    if step is None:
        logger.info("what the job begins with is put together")
        # A process of its own: who starts the gang loads no torch.
        done = subprocess.run(
            [sys.executable, "-m", "engine.runtime.start", str(launch.directory)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise _refusal(done)
        step = begun_step(launch.checkpoint_folder)
        assert step is not None
    return step


def _refusal(done: subprocess.CompletedProcess[str]) -> Exception:
    """Of the last line on the process's standard error."""
    last = done.stderr.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
        return UserError(found["field"], found["value"], found["rule"], found["remedy"])
    except (ValueError, KeyError, TypeError):
        why = last
        if done.returncode < 0:
            why = f"{signal.Signals(-done.returncode).name} ended the process that did it, which holds the model and"
            why += " what the optimizer keeps of it in memory"
        return RuntimeError(f"the checkpoint that the job begins with could not be put together: {why}")
