"""Sources: what has been imported that may hold code of a user's own for tensors, as Python's syntax trees.

Read are modules whose source speaks of PyTorch, except PyTorch's own, Python's and ours. What is imported later is not
read, nor is a module without a source.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tokenize
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

_TORCH = re.compile(r"\btorch\b")
_NOT_READ = sys.stdlib_module_names | {"torch", "torchgen", "functorch", "engine", "backend"}


def imported() -> Iterator[ModuleType]:
    """Every module that may be read; which of them speak of PyTorch shows in `tree`."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _NOT_READ:
            yield module


def tree(module: ModuleType, words: Collection[str]) -> ast.Module | SyntaxError | None:
    """The module's syntax tree; None where it does not speak of PyTorch, has no source, or none of `words` in it. An
    error where the source is another one than was imported, so that nothing is known of it."""
    try:
        source = _source(module)
    except (OSError, TypeError, SyntaxError, UnicodeDecodeError):  # none, or none of Python's
        return None
    if "torch" not in source or not any(word in source for word in words) or not _TORCH.search(source):
        return None
    try:
        return ast.parse(source)
    except SyntaxError as error:
        return error


def names(module: ModuleType) -> Mapping[str, Any]:
    """Without importing what the module imports when it is first used."""
    found: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def place(module: ModuleType, line: int) -> str:
    """`model.py, line 12`."""
    return f"{Path(names(module).get('__file__') or module.__name__).name}, line {line}"


def _source(module: ModuleType) -> str:
    """Of a file as it is: `inspect` would take each apart into lines, for two seconds where SymPy is imported."""
    file = names(module).get("__file__")
    if isinstance(file, str) and file.endswith(".py"):
        with tokenize.open(file) as opened:
            return opened.read()
    return inspect.getsource(module)
