"""Sources: what has been imported that may hold code of a user's own for tensors, as Python's syntax trees.

Read are modules whose source speaks of PyTorch, or which have a class of tensors by another module's help, except
PyTorch's own, Python's and ours. What is imported later is not read, nor is a module without a source.
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_OF_TORCH = re.compile(r"\btorch\b|__torch_function__|DisableTorchFunction|swap_tensors|has_torch_function")
_OURS = Path(__file__).parents[1]
_OTHERS = ("site-packages", "dist-packages")
_PYTHON = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
_NOT_READ = (f"{_OURS}/", f"{_OURS.with_name('backend')}/", f"{Path(torch.__file__).parent}/")


def imported() -> Iterator[ModuleType]:
    """Every module that may be read; which of them speak of PyTorch shows in `tree`."""
    for module in list(sys.modules.values()):
        if issubclass(type(module), ModuleType) and not _is_known(file_of(module)):
            yield module


def tree(module: ModuleType, has: Callable[[str], bool]) -> ast.Module | SyntaxError | None:
    """The module's syntax tree; None where it does not speak of PyTorch, has no source, or one of which `has` says
    False. An error where the source is another one than was imported, so that nothing is known of it."""
    source = _source(module)
    if source is None or not has(source):
        return None
    if not _OF_TORCH.search(source) and not any(
        Tensor in bases(value) for value in list(names(module).values())
    ):
        return None
    try:
        return ast.parse(source)
    except SyntaxError as error:
        return error
    except (RecursionError, MemoryError, ValueError) as error:  # nested too deeply, or no text
        return SyntaxError(str(error))


def names(module: ModuleType) -> Mapping[str, Any]:
    """Without importing what the module imports when it is first used."""
    found: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def file_of(module: ModuleType) -> str:
    """Where it says that it lies; empty where it does not say so."""
    file = names(module).get("__file__")
    return str(file) if isinstance(file, str | Path) else ""


def bases(value: Any) -> tuple[type, ...]:
    """A class and all that it inherits from; nothing of what is no class. Lazy objects are not asked what they are."""
    return type.__getattribute__(value, "__mro__") if issubclass(type(value), type) else ()


def place(module: ModuleType, line: int) -> str:
    """`model.py, line 12`."""
    return f"{Path(file_of(module) or names(module).get('__name__', '?')).name}, line {line}"


def _is_known(file: str) -> bool:
    """Whether the file is PyTorch's, Python's or ours."""
    if file.startswith(_NOT_READ):
        return True
    return file.startswith(_PYTHON) and not any(f"/{each}/" in file for each in _OTHERS)


def _source(module: ModuleType) -> str | None:
    """Of a file as it is, or as the module's loader keeps it, in an archive, say; None where there is none."""
    file = file_of(module)
    try:
        if file.endswith(".py"):
            with tokenize.open(file) as opened:
                return opened.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        pass
    loader = getattr(names(module).get("__spec__"), "loader", None)
    try:
        found = loader.get_source(names(module)["__name__"]) if loader is not None else None
    except Exception:  # whatever the loader of a user's raises: there is none
        return None
    return found if isinstance(found, str) else None
