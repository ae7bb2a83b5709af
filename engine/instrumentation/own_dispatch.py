"""Own dispatch: which code of a user's decides itself what PyTorch's functions do with tensors.

A closed parameter (`gate.py`) is asked by `__torch_function__`. A tensor whose class has a method of that name is asked
before it, and as a rule then calls the function with all such methods switched off; so does PyTorch's own nested
tensor, and code may switch them off without any tensor, or do another thing where it finds one. And swapped tensors
take each other's class along. Nothing tells when a parameter is read then, so where imported code uses one of these, no
layer is read before its version has come, and none of its units leave before backward has ended.

Not found: what has these by another name (`getattr(torch, "nested")`, or a name that was given one), and what is
imported later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from engine.instrumentation import sources

_METHOD = "__torch_function__"
_ASKS_NOBODY = "_disabled_torch_function_impl"
"""What a class has in place of the method where PyTorch is to ask nobody: it may stand there, and not be called."""
_ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_WORDS = frozenset(
    {
        _METHOD,
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass",
        "swap_tensors",
        *_ASKS,
        *(f"_{a}" for a in _ASKS),
    }
)
_OF_TORCH = frozenset({"jagged", "nested"})
"""Words of everybody's: they count as PyTorch's attributes, and where they are imported from it."""


def dispatches() -> str | None:
    """What the first such code does, e.g. "model.py, line 12, has its own __torch_function__"; None where there is
    none."""
    return _SEARCH.first()


def _found(module: ModuleType) -> str | None:
    tree = sources.tree(
        module, lambda text: any(word in text for word in (*_WORDS, *_OF_TORCH, _ASKS_NOBODY))
    )
    if tree is None or isinstance(tree, str):
        return tree
    names, nodes = sources.names(module), list(ast.walk(tree))
    names = {**names, **{name: torch for node in nodes for name in _torch_as(node)}}
    passed = {below for node in nodes for each in _passed(node, names) for below in each}
    found = [
        (getattr(node, "lineno", 1), word, not isinstance(node, ast.FunctionDef))
        for node in nodes
        if node not in passed
        for word in _used(node, names)
    ]
    if not found:
        return None
    line, word, uses = min(found)
    return f"{sources.place(module, line)}, {'uses' if uses else 'has its own'} {word}"


def _torch_as(node: ast.AST) -> list[str]:
    """Names that PyTorch is given here."""
    aliases = node.names if isinstance(node, ast.Import) else []
    whole = [alias.asname or "torch" for alias in aliases if alias.name == "torch"]
    return whole + ["torch" for alias in aliases if alias.name.startswith("torch.") and alias.asname is None]


def _passed(node: ast.AST, names: Mapping[str, Any]) -> Iterator[Iterable[ast.AST]]:
    """What may have one of the words: a mode's own methods, because what a mode calls asks all tensors again; the name
    of a method that asks nobody; and a question whose answer is to ask."""
    if isinstance(node, ast.ClassDef):
        if _is_mode(node, names):
            yield node.body
        for each in node.body:
            if (
                isinstance(each, ast.Assign | ast.AnnAssign)
                and each.value
                and _ASKS_NOBODY in _names(each.value)
            ):
                yield each.targets if isinstance(each, ast.Assign) else [each.target]
    if isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Return):
        asked = node.body[0].value
        if isinstance(asked, ast.Call) and "handle_torch_function" in _names(asked.func):
            yield ast.walk(node.test)


def _is_mode(node: ast.ClassDef, names: Mapping[str, Any]) -> bool:
    known = names.get(node.name)
    if sources.bases(known):
        return sources.inherits(known, TorchFunctionMode) and not sources.inherits(known, torch.Tensor)
    return bool(node.bases) and all("TorchFunctionMode" in _names(base) for base in node.bases)


def _used(node: ast.AST, names: Mapping[str, Any]) -> set[str]:
    """Which of the words the node uses."""
    if isinstance(node, ast.Call):
        return _names(node.func) & {_ASKS_NOBODY}
    if isinstance(node, ast.Attribute) and node.attr in _OF_TORCH:
        return {node.attr} if sources.value(node.value, names, None) is torch else set()
    if isinstance(node, ast.Import):
        return {word for alias in node.names for word in _imported(alias.name)}
    if isinstance(node, ast.ImportFrom):  # a question counts where it is asked
        aliases = [alias for alias in node.names if alias.asname or alias.name not in _ASKS]
        return {word for alias in aliases for word in _imported(f"{node.module or ''}.{alias.name}")}
    return _names(node) & _WORDS


def _imported(path: str) -> set[str]:
    """Which of the words an imported path has."""
    parts = path.split(".")
    return set(parts[1:]) & (_WORDS | _OF_TORCH if parts[0] == "torch" else _WORDS)


def _names(node: ast.AST) -> set[str]:
    """The name that a node of the tree gives or uses."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else set()


_SEARCH = sources.Search(_found)
