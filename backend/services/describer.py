"""`python -m engine.models` with somebody who looks after it: what a user's code starts while its model is described
ends with the description, whatever session and environment it has, and also where that code kills its own parent, which
is not the server.

    python -m backend.services.describer LIFELINE BYTES < request.json > description.json
"""

from __future__ import annotations

import os
import runpy
import signal

from backend.executors import watchdog

if __name__ == "__main__":
    watchdog.split(stop=lambda: os.kill(os.getpid(), signal.SIGKILL), clean=lambda: None)
    runpy.run_module("engine.models", run_name="__main__", alter_sys=True)
