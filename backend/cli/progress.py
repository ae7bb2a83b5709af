"""What long work shows on a terminal while it lasts; in a pipe, nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLANNING = "planning; a model is described once, which may take a minute"


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A line of standard error, gone when the block ends: `text`, or what it is told since, and for how long."""
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    console = Console(stderr=True)
    shown = sys.stderr.isatty() and console.is_interactive
    with Progress(*columns, console=console, transient=True, disable=not shown) as line:
        task = line.add_task(text)
        yield lambda now: line.update(task, description=now)
