"""What a message costs on this machine, for who makes plans: measured once, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from engine.plan.plan import MessageCost

RETRY_S = 600.0
"""So long after a failure it is tried again, by who asks then."""
_DEADLINE_S = 120.0


class Measured:
    """Measured by the first who asks; whoever asks meanwhile waits for the same answer, whoever asks later has it."""

    def __init__(
        self, measure: Callable[[], MessageCost], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._lock = threading.Lock()  # never held while it is measured
        self._found: Future[MessageCost] | None = None
        self._again_s = 0.0
        """From when on a failure is no answer any more."""

    def get(self) -> MessageCost:
        """What it costs; without a number, where that could not be measured."""
        with self._lock:
            found = self._found
            if found is None or (self._is_failure(found) and self._clock() >= self._again_s):
                found, mine = Future[MessageCost](), True
                self._found = found
            else:
                mine = False
        if mine:
            try:
                cost = self._measure()
            except BaseException as error:
                cost = MessageCost(why=f"{type(error).__name__}: {error}")
                raise
            finally:
                self._again_s = self._clock() + RETRY_S
                found.set_result(cost)
        return found.result()

    @staticmethod
    def _is_failure(found: Future[MessageCost]) -> bool:
        return found.done() and found.result().seconds is None


def measure() -> MessageCost:
    """One to three seconds of `engine/transport/message_cost.py`."""
    command = [sys.executable, "-m", "engine.transport.message_cost"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        if done.returncode:
            return MessageCost(why=_last_words(done))
        return MessageCost(seconds=float(done.stdout) / 1e6)
    except subprocess.TimeoutExpired:
        return MessageCost(why=f"it took longer than {_DEADLINE_S:g} s")
    except (OSError, ValueError) as error:  # no process can be started here, or it said something else
        return MessageCost(why=str(error))


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"its process was killed by {signal.Signals(-done.returncode).name}"
    return done.stderr.strip().rpartition("\n")[2] or f"its process ended with status {done.returncode}"


_HERE = Measured(measure)


def here() -> MessageCost:
    """Of this machine. The first call takes one to three seconds; later ones answer the same, but for a failure, after
    which one tries again now and then."""
    return _HERE.get()
