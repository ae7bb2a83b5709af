"""What a trial must leave as it was: processes, open files and sockets, temporary files."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections import Counter
from multiprocessing import active_children
from pathlib import Path

from tests.resident import Residents

_LOOKED_THROUGH_AFTER = 100
"""Trials. So long what was there after one may stay in memory."""
_ENDING_S, _LOOK_S = 10.0, 0.05
"""How long what was started may take to see that its parent has ended, on a busy machine."""


def private_temporaries(folder: Path) -> None:
    """From now on this process, and what it starts, put temporary files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


class Watch:
    """What there is now, and what there is more later: processes, files that are open here, temporary files. (What a
    resident has open ends with it, as it would end with a job's own process.) Linux only: elsewhere nothing is seen."""

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._renewed = 0
        self.renew()

    def renew(self) -> None:
        """What there is now is here to stay."""
        self._forked = self._residents.forked
        self._processes = _descendants()
        if self._renewed and self._renewed % _LOOKED_THROUGH_AFTER == 0:
            gc.unfreeze()  # not before the first trial: what was frozen by then is no trial's
        self._renewed += 1
        self._open = _open_files()
        gc.freeze()  # looking through all that is here, for each trial, took longer than some trials
        self._temporary = _temporary()

    def left(self) -> list[str]:
        """What there is besides, in words."""
        found = [f"process {pid}: {name}" for pid, name in self._strangers().items()]
        found += [f"temporary file {name}" for name in _temporary() - self._temporary]
        more = _open_files() - self._open
        if self._residents.forked != self._forked:  # another resident is some more pipes
            return found
        return found + [f"{count} more open: {kind}" for kind, count in more.items()]

    def _strangers(self) -> dict[int, str]:
        """Processes that are here besides, and stay: one whose parent has ended may need a moment to see it."""
        until = time.monotonic() + _ENDING_S
        while True:
            at_home = self._processes.keys() | self._residents.pids
            found = {pid: name for pid, name in _descendants().items() if pid not in at_home}
            if not found or time.monotonic() > until:
                return found
            time.sleep(_LOOK_S)


def _descendants() -> dict[int, str]:
    """Every process below this one that is not a zombie, with its command."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            state, parent = rest.split()[:2]
        except OSError:  # it has ended
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.name))
            names[int(entry.name)] = name.partition("(")[2]
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found[child] = names[child]
            waiting.append(child)
    return found


def _open_files() -> Counter[str]:
    """Of this process, by kind."""
    active_children()  # multiprocessing forgets those that have ended, with their pipes
    gc.collect()
    kinds: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            kind, number, _ = str(entry.readlink()).partition(":[")
            kinds[kind if number else "file"] += 1
        except OSError:
            continue
    return kinds


def _temporary() -> set[str]:
    return {entry.name for entry in Path(tempfile.gettempdir()).iterdir()}
