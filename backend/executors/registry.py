"""The executors that there are. One more is one more file and one more line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backend.executors.base import Executor
from backend.executors.local import LocalExecutor
from backend.executors.ray_executor import RayExecutor
from engine.errors import UnknownNameError

EXECUTORS: Mapping[str, Callable[[str | None], Executor]] = {
    "local": lambda _address: LocalExecutor(),
    "ray": RayExecutor,
}
"""Each makes one, for the cluster at an address where it needs one."""


def make_executor(name: str, address: str | None = None) -> Executor:
    """The executor called `name`; raises UnknownNameError listing the known ones. `address`: of a cluster, for an
    executor that has one."""
    if name not in EXECUTORS:
        raise UnknownNameError("executor", name, "executor", EXECUTORS)
    return EXECUTORS[name](address)
