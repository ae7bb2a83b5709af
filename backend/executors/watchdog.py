"""Two processes see an attempt through, so that whichever of them is killed, the other ends what is left.

The process that the executor started becomes the *watchdog*: it forks, and its child is the *supervisor*. Both are
subreapers: what a program leaves behind, in a session and with an environment of its own, becomes the supervisor's
child, and when that is killed the watchdog's, so that an attempt's processes are found by descent. When the watchdog
is killed, the kernel tells the supervisor. (It would, too, when only the thread that forked ends: the watchdog has no
other.)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from backend.executors import process
from engine import lab

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOST = signal.SIGUSR1
"""To the supervisor: the watchdog is gone."""


def split(stop: Callable[[], None], clean: Callable[[], None]) -> None:
    """Return as the supervisor, in a child of the calling process; that one becomes the watchdog and does not return.
    `stop` is called for a signal that asks for the end, `clean` when no other process is left. On the main thread, and
    before there are others."""

    def end_alone(*_: int | FrameType | None) -> NoReturn:
        process.kill_descendants()
        clean()
        os._exit(1)

    process.become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until both can act on one
    watchdog = os.getpid()
    if supervisor := os.fork():
        _watch(supervisor, clean)
    process.become_subreaper()
    # Handlers run between two steps of the main thread: it cannot meanwhile report how the gang ended.
    signal.signal(LOST, end_alone)
    process.signal_at_parents_end(LOST)
    if os.getppid() != watchdog:
        end_alone()
    for number in ENDING:
        signal.signal(number, lambda *_: stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _watch(supervisor: int, clean: Callable[[], None]) -> NoReturn:
    """Hand signals on, wait for the supervisor's end, end what it left, and end as it did."""
    for number in ENDING:
        signal.signal(number, lambda given, _: os.kill(supervisor, given))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    end = os.waitid(
        os.P_PID, supervisor, os.WEXITED | os.WNOWAIT
    )  # until it is reaped, its number is its own
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    process.kill_descendants()
    clean()
    assert end is not None, "a call that waits answers"
    if end.si_code == os.CLD_EXITED:
        os._exit(end.si_status)
    lab.sweep()
    if end.si_status != signal.SIGKILL:
        signal.signal(end.si_status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {end.si_status})
    os.kill(os.getpid(), end.si_status)
    os._exit(1)  # a signal that does not end a process: it cannot have been
