"""The executors that there are. One more is one more file and one more line here."""

from __future__ import annotations

from collections.abc import Mapping

from backend.executors.base import Executor
from backend.executors.local import LocalExecutor
from engine.errors import UnknownNameError

EXECUTORS: Mapping[str, type[Executor]] = {"local": LocalExecutor}


def make_executor(name: str) -> Executor:
    """The executor called `name`; raises UnknownNameError listing the known ones."""
    if name not in EXECUTORS:
        raise UnknownNameError("executor", name, "executor", EXECUTORS)
    return EXECUTORS[name]()
