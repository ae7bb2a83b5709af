"""Labs for tests: where they are not permitted, the test is skipped with the reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from engine.lab import Lab, permitted
from tests.facilities import unavailable

_CONTEXT = get_context("spawn")


def needs_lab(*, latency: bool = False) -> None:
    """With `latency`: one whose links delay."""
    if reason := permitted():
        unavailable("lab", reason)
    if latency and (reason := permitted(latency=True)):
        unavailable("delay", reason)


class Guest:
    """A process that lives on a host of a lab and runs `work(pipe, *args)` there."""

    def __init__(self, lab: Lab, host: int, work: Callable[..., None], *args: Any) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_live, args=(lab, host, work, theirs, args), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> None:
        """Wait for it; it must have ended well."""
        self.process.join(30)
        assert self.process.exitcode == 0


def _live(lab: Lab, host: int, work: Callable[..., None], pipe: Connection, args: tuple[Any, ...]) -> None:
    lab.enter(host)
    work(pipe, *args)


def interfaces(lab: Lab, host: int) -> list[str]:
    """Names of the interfaces of a host."""
    command = ["ip", "-n", f"{lab.stem}-h{host}", "-json", "link", "show"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return [entry["ifname"] for entry in json.loads(found.stdout)]
