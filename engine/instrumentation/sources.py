"""Sources: what has been imported that may hold code of a user's own for tensors, as Python's syntax trees.

Read are the user's modules, and those whose source speaks of PyTorch, or which have something of it by another module's
help, except PyTorch's own, Python's and ours. What is imported later is not read, nor is a module without a source.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import sysconfig
import tokenize
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import Module

from engine import user_code

Found = TypeVar("Found")

_OF_TORCH = re.compile(r"\btorch\b|__torch_function__|DisableTorchFunction|swap_tensors|has_torch_function")
_OF_TORCH_IN_PART = ("torch", "Torch", "swap_tensors")
"""Whatever the expression finds has one of them."""
_TORCH = Path(torch.__file__).parent
_OURS = Path(__file__).parents[1]
_NOT_READ = tuple(
    f"{folder}/"
    for folder in (
        _OURS, _OURS.with_name("backend"), _TORCH, _TORCH.with_name("torchgen"), _TORCH.with_name("functorch"),
    )
)  # fmt: skip
_PYTHON = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
_OTHERS = ("site-packages", "dist-packages")
_SMALL, _FEW = 2**15, 4
"""Characters of a source whose tree is kept, and how many are."""

_KNOWN: dict[int, ModuleType] = {}
"""By id, modules that are PyTorch's, Python's or ours, and those that have, as was read, nothing to do with PyTorch.
They are kept so that no other one gets it: nearly all that are imported, and every worker looks at them a dozen times
before it trains."""
_READ: dict[int, tuple[ModuleType, str | None]] = {}
"""By id of a module, which is kept so that no other one gets it: its source, if it has to do with PyTorch."""


def imported() -> Iterator[ModuleType]:
    """Every module that may be read; which of them speak of PyTorch shows in `tree`."""
    for module in list(sys.modules.values()):
        if id(module) in _KNOWN or not issubclass(type(module), ModuleType):
            continue
        if _is_known(file_of(module)):
            _KNOWN[id(module)] = module
        else:
            yield module


class Search:
    """Looks for something in the source of every module, once in each."""

    def __init__(self, found: Callable[[ModuleType], str | None]) -> None:
        """`found(module)`: what is found there, in words; None: nothing."""
        self._found = found
        self._read: dict[int, tuple[ModuleType, str | None]] = {}
        """By id of a module, which is kept so that no other one gets it."""

    def first(self) -> str | None:
        """What is found in the first imported module that has it."""
        for module in imported():
            if id(module) not in self._read:
                self._read[id(module)] = module, self._found(module)
            if (found := self._read[id(module)][1]) is not None:
                return found
        return None


def tree(module: ModuleType, has: Callable[[str], bool]) -> ast.Module | str | None:
    """The module's syntax tree; None where it does not speak of PyTorch, has no source, or one of which `has` says
    False. A text says why nothing is known of it, e.g. "model.py, line 12, is not what was imported"."""
    source = _of_torch(module)
    if source is None or not has(source):
        return None
    try:
        return _parsed(source) if len(source) <= _SMALL else ast.parse(source)
    except SyntaxError as error:
        return f"{place(module, error.lineno or 1)}, is not what was imported"
    except (RecursionError, MemoryError, ValueError):
        return too_deep(module)


@lru_cache(maxsize=_FEW)
def _parsed(source: str) -> ast.Module:
    tree = ast.parse(source)
    _mark(tree)
    return tree


def _mark(tree: Any) -> None:
    tree.kept = True


def kept_with_tree(find: Callable[[ast.Module], Found]) -> Callable[[ast.Module], Found]:
    """Keeps what `find` finds in a tree as long as the tree is kept. A user's module is read for four questions, and
    again in a process that takes job after job. Trees of large sources, or of many, are not kept: all would do so."""
    kept = lru_cache(maxsize=_FEW)(find)

    @wraps(find)
    def found(tree: ast.Module) -> Found:
        return kept(tree) if hasattr(tree, "kept") else find(tree)

    return found


def too_deep(module: ModuleType) -> str:
    """Why nothing is known of it, as `tree` says it."""
    return f"{place(module, 1)}, cannot be read as Python: it nests too deeply"


def names(module: ModuleType) -> Mapping[str, Any]:
    """Without importing what the module imports when it is first used."""
    found: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def known(module: ModuleType, tree: ast.AST) -> Mapping[str, Any]:
    """The names of a module, and what its functions import for themselves, as far as that is imported by now."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                whole = each.name if each.asname else each.name.partition(".")[0]
                if whole in sys.modules:
                    found[each.asname or whole] = sys.modules[whole]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module in sys.modules:
            owner = names(sys.modules[node.module])
            found |= {each.asname or each.name: owner[each.name] for each in node.names if each.name in owner}
    return ChainMap(dict(names(module)), found)


def file_of(module: ModuleType) -> str:
    """Where it says that it lies; empty where it does not say so."""
    file = names(module).get("__file__")
    return str(file) if issubclass(type(file), str | Path) else ""


def bases(value: Any) -> tuple[type, ...]:
    """A class and all that it inherits from; nothing of what is no class. Lazy objects are not asked what they are."""
    return type.__getattribute__(value, "__mro__") if issubclass(type(value), type) else ()


def inherits(value: Any, base: type) -> bool:
    """Whether it is a class that inherits from `base`. Classes of a user's are not asked whom they equal."""
    return any(each is base for each in bases(value))


def value(node: ast.AST, names: Mapping[str, Any], unknown: Any) -> Any:
    """What a constant, its class (`type(None)`), or a name in a module, with its attributes, stands for; `unknown` if
    that shows only later."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "type" and len(node.args) == 1:
        (of,) = node.args
        return type(of.value) if isinstance(of, ast.Constant) else unknown
    if isinstance(node, ast.Name):
        builtins = names.get("__builtins__", {})
        known = builtins if isinstance(builtins, dict) else vars(builtins)
        return names.get(node.id, known.get(node.id, unknown))
    if isinstance(node, ast.Attribute):
        owner = value(node.value, names, unknown)
        return unknown if owner is unknown else _attribute(owner, node.attr, unknown)
    return unknown


def _attribute(owner: Any, name: str, unknown: Any) -> Any:
    """What it holds under that name, without running a user's code: what a property answers is unknown, and so is what
    a module imports only when it is asked."""
    found = inspect.getattr_static(owner, name, unknown)
    return unknown if hasattr(type(found), "__get__") else found


def place(module: ModuleType, line: int) -> str:
    """`model.py, line 12`."""
    return f"{Path(file_of(module) or names(module).get('__name__', '?')).name}, line {line}"


@cache
def _is_known(file: str) -> bool:
    """Whether the file is PyTorch's, Python's or ours."""
    if file.startswith(_NOT_READ):
        return True
    return file.startswith(_PYTHON) and not any(f"/{each}/" in file for each in _OTHERS)


def _of_torch(module: ModuleType) -> str | None:
    """The source of a module that has to do with PyTorch; None of one that has not, or has no source."""
    if id(module) not in _READ:
        source = _source(module)
        of_torch = source is not None and (
            user_code.belongs(file_of(module)) or _speaks_of_torch(source) or _has_of_torch(module)
        )
        _READ[id(module)] = module, source if of_torch else None
        if not of_torch:
            _KNOWN[id(module)] = module
    return _READ[id(module)][1]


def _speaks_of_torch(source: str) -> bool:
    # Nearly all of what is imported does not: plain searches say so ten times as fast as the expression.
    return any(word in source for word in _OF_TORCH_IN_PART) and bool(_OF_TORCH.search(source))


def _has_of_torch(module: ModuleType) -> bool:
    """Whether a name in it stands for PyTorch, for a part of it, or for a class of tensors or modules."""
    for value in list(names(module).values()):
        if issubclass(type(value), ModuleType):
            if file_of(value).startswith(f"{_TORCH}/"):
                return True
        elif any(each is Tensor or each is Module for each in bases(value)):
            return True
    return False


def _source(module: ModuleType) -> str | None:
    """Of a file as it is, or as the module's loader keeps it, in an archive, say; None where there is none."""
    file = file_of(module)
    try:
        if file.endswith(".py"):
            with tokenize.open(file) as opened:
                return opened.read()
    except (OSError, SyntaxError, ValueError):  # not there, or not as it says that it is
        pass
    try:
        spec: Any = names(module)["__spec__"]
        found = spec.loader.get_source(spec.name)
    except Exception:  # whatever a loader of a user's raises: there is none
        return None
    return found if isinstance(found, str) else None
