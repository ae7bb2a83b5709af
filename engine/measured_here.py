"""What is measured on this machine once, for who makes plans: in a process of its own, by the first who asks."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

RETRY_S = 600.0
"""So long after a failure it is tried again, by who asks then."""
_DEADLINE_S = 120.0


class Answer(Protocol):
    """What was found."""

    @property
    def why(self) -> str:
        """Why it could not be measured; empty where it was."""
        ...


Found = TypeVar("Found", bound=Answer)


class Measured(Generic[Found]):
    """Measured by the first who asks; whoever asks meanwhile waits for the same answer, whoever asks later has it."""

    def __init__(
        self,
        measure: Callable[[], Found],
        failed: Callable[[str], Found],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`failed(why)`: what those get who wait, where `measure` raises."""
        self._measure = measure
        self._failed = failed
        self._clock = clock
        self._lock = threading.Lock()  # never held while it is measured
        self._found: Future[Found] | None = None
        self._again_s = 0.0
        """From when on a failure is no answer any more."""

    def get(self) -> Found:
        """What was found, or why nothing was."""
        with self._lock:
            found = self._found
            if found is None or (self._is_failure(found) and self._clock() >= self._again_s):
                found, mine = Future[Found](), True
                self._found = found
            else:
                mine = False
        if mine:
            try:
                answer = self._measure()
            except BaseException as error:
                answer = self._failed(f"{type(error).__name__}: {error}")
                raise
            finally:
                self._again_s = self._clock() + RETRY_S
                found.set_result(answer)
        return found.result()

    @staticmethod
    def _is_failure(found: Future[Found]) -> bool:
        return found.done() and bool(found.result().why)


def told_by(module: str, read: Callable[[str], Found], failed: Callable[[str], Found]) -> Found:
    """What `read` makes of what `python -m module` says, or `failed(why)`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module], capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
        return read(done.stdout) if not done.returncode else failed(_last_words(done))
    except subprocess.TimeoutExpired:
        return failed(f"it took longer than {_DEADLINE_S:g} s")
    except (OSError, ValueError) as error:  # no process can be started here, or it said something else
        return failed(str(error) or type(error).__name__)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"its process was killed by {signal.Signals(-done.returncode).name}"
    return done.stderr.strip().rpartition("\n")[2] or f"its process ended with status {done.returncode}"
