"""Processes for benchmarks below the gang: one on each host of a lab, talked to through pipes.

    with Hosts(main, 4, rate_bps=10**9, lab=True, argument=setting) as hosts:
        answers = hosts.ask([task] * 4)

`main(place, pipe, argument)` runs in each process: it receives tasks until None comes, and answers each. Without a
lab all are on this machine's loopback.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from engine.gang.gang import FORKED
from engine.lab import INTERFACE, Lab, Link, permitted

_JOIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Host:
    """Where a process runs."""

    index: int
    count: int
    lab: Lab | None

    @property
    def address(self) -> str:
        """What the others reach it at."""
        return self.lab.address(self.index) if self.lab else "127.0.0.1"

    @property
    def interface(self) -> str:
        """The network interface with that address."""
        return INTERFACE if self.lab else "lo"


Main = Callable[[Host, Connection, Any], None]


class Hosts:
    """Started when made; ended, whatever happens, when left."""

    def __init__(
        self, main: Main, count: int, *, lab: bool, rate_bps: int | None = None, argument: Any = None
    ) -> None:
        """`rate_bps`: of each host's link, in each direction; None: not limited. Raises LabError where there may be
        no lab."""
        self.count = count
        """Of its processes."""
        self._lab = Lab.create("benchmark", [Link(rate_bps=rate_bps)] * count) if lab else None
        self._pipes: list[Connection] = []
        self._processes = []
        try:
            for index in range(count):
                ours, theirs = FORKED.Pipe()
                place = Host(index=index, count=count, lab=self._lab)
                process = FORKED.Process(target=_enter, args=(main, place, theirs, argument))
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
        except BaseException:
            self._end()
            raise

    def ask(self, tasks: Sequence[Any]) -> list[Any]:
        """One task for each process, then one answer of each. Raises RuntimeError where a process died."""
        for pipe, task in zip(self._pipes, tasks, strict=True):
            pipe.send(task)
        return self.answers()

    def answers(self) -> list[Any]:
        """The next word of each process."""
        found = []
        for index, pipe in enumerate(self._pipes):
            try:
                found.append(pipe.recv())
            except EOFError:
                raise RuntimeError(f"the process on host {index} has died; its words are above") from None
        return found

    def _end(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self._processes:
            process.join(_JOIN_S)
            if process.exitcode is None:
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()
        if self._lab is not None:
            self._lab.close()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for process in self._processes:
                process.kill()
        self._end()


def require_lab() -> None:
    """End the script, with the reason, where this process may have no lab. That is no failure: the other benchmarks
    of `make bench` go on."""
    if why := permitted():
        print(f"SKIPPED: {why}")
        raise SystemExit(0)


def tasks(pipe: Connection) -> Iterator[Any]:
    """What a process is asked, until None."""
    while (task := pipe.recv()) is not None:
        yield task


def _enter(main: Main, place: Host, pipe: Connection, argument: Any) -> None:
    if place.lab is not None:
        place.lab.enter(place.index)
    main(place, pipe, argument)
