"""With which step an attempt begins: the one behind the job's newest checkpoint that is whole, else behind the other
job's checkpoint that the job begins with, else step 0. All of its processes read the same."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

from engine.checkpoint.start import START_SAYS
from engine.errors import UserError
from engine.launch import Launch
from engine.regular import read_regular

_MOST_BYTES = 2**16
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
    says = launch.checkpoint_folder / START_SAYS
    if not says.exists():
        # A process of its own: who starts the gang loads no torch.
        done = subprocess.run(
            [sys.executable, "-m", "engine.runtime.start", str(launch.directory)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise _refusal(done.stderr)
    return int(json.loads(read_regular(says, _MOST_BYTES, root=launch.checkpoint_folder))["step"])


def _refusal(said: str) -> Exception:
    """Of the last line on the process's standard error."""
    last = said.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
        return UserError(found["field"], found["value"], found["rule"], found["remedy"])
    except (ValueError, KeyError, TypeError):
        return RuntimeError(f"the checkpoint that the job begins with could not be put together: {last}")
