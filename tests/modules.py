"""Modules of users, which jobs import from folders of theirs: those of one job are not those of the next."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path


def forget_modules(paths: Sequence[str]) -> None:
    """Forget what was imported from folders that joined `sys.path` since it was `paths`, the folders, and what was
    compiled: the next one may have other modules of the same names, and one that is named `json` would stand before
    Python's own; and what torch compiles of its own modules is limited in number for a whole process."""
    added = tuple(
        f"{Path(path)}/" for path in sys.path if path not in paths and "site-packages" not in Path(path).parts
    )  # what a library brings with it stays
    if not added:
        return
    sys.path[:] = paths
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and file.startswith(added):
            del sys.modules[name]
    importlib.invalidate_caches()
    forget_compiled()


def forget_compiled() -> None:
    """Forget what torch has compiled in this process, as a job's processes do when they end."""
    if (compiler := sys.modules.get("torch._dynamo")) is not None:
        compiler.reset()
