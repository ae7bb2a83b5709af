"""`python -m engine.models`, or another module that runs a user's code for an answer, with somebody who looks after it:
what that code starts ends with the answer, whatever session and environment it has, and also where it kills its own
parent, which is not the server.

    python -m backend.services.describer LIFELINE BYTES MODULE < request.json > answer.json

Started anew, or in a fork of a process that has loaded what it needs (`forker.py`).
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

from backend.executors import watchdog

if __name__ == "__main__":
    watchdog.split(stop=lambda: os.kill(os.getpid(), signal.SIGKILL), clean=lambda: None)
    runpy.run_module(sys.argv.pop(), run_name="__main__", alter_sys=True)
