"""What long work shows on a terminal while it lasts. In a pipe or a file, nothing, but for what `Lines` tells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
PLANNING = "planning; a model is described once, which may take a minute"


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A line of standard error, gone when the block ends: `text`, or what it is told since, and for how long."""
    if not _shown():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - a command that shows nothing does not load it
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(text)
        yield lambda now: line.update(task, description=now)


class Lines(Generic[T]):
    """Where standard error is no terminal, a line of it for each new state of what is followed: a log says how far the
    work was, and when it stopped."""

    def __init__(self, first: T) -> None:
        self._last = first
        self._silent = _shown()

    def tell(self, state: T, text: str) -> None:
        if state != self._last and not self._silent:
            print(text, file=sys.stderr, flush=True)
        self._last = state


def _shown() -> bool:
    """Whether standard error is a terminal that can draw a line anew."""
    if not sys.stderr.isatty():
        return False
    from rich.console import Console  # noqa: PLC0415 - as above

    return Console(stderr=True).is_interactive
