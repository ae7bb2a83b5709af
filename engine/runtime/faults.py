"""Fault injection: make one process of a job fail at a chosen step, to test what the others and the service do.

Set TRAINYARD_FAULT to `<party>/<step>/<fault>`, e.g. `worker 1/5/kill`; faults: kill (SIGKILL itself), raise (an
exception), exit (status 3 without a word), hang (stop making progress). Nothing happens without it, nor to a worker
that has been started anew.
"""

from __future__ import annotations

import os
import signal
import threading

from engine.errors import UserError

VARIABLE = "TRAINYARD_FAULT"
_FAULTS = ("kill", "raise", "exit", "hang")


class Faults:
    """The fault that this process is to suffer, if any."""

    def __init__(self, step: int | None = None, fault: str = "") -> None:
        self._step = step
        self._fault = fault

    @classmethod
    def from_environment(cls, party: str) -> Faults:
        """Read TRAINYARD_FAULT. Raises UserError where it makes no sense."""
        text = os.environ.get(VARIABLE)
        if not text:
            return cls()
        name, _, rest = text.partition("/")
        step, _, fault = rest.partition("/")
        if not step.isdigit() or fault not in _FAULTS:
            raise UserError(
                VARIABLE, text, "must read <party>/<step>/<fault>", f"Faults: {', '.join(_FAULTS)}"
            )
        return cls(int(step), fault) if name == party else cls()

    def after_step(self, step: int) -> None:
        """Suffer the fault if its step has come."""
        if step != self._step:
            return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._fault == "raise":
            raise RuntimeError(f"injected fault at step {step}")
        elif self._fault == "exit":
            os._exit(3)
        else:
            threading.Event().wait()
