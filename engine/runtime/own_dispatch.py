"""Own dispatch: which code of a user's decides itself what PyTorch's functions do with tensors.

A closed parameter (`gate.py`) is asked by `__torch_function__`. A tensor whose class has a method of that name is asked
before it, and as a rule then calls the function with all such methods switched off; so does PyTorch's own nested
tensor, and code may switch them off without any tensor. And swapped tensors take each other's class along. Nothing
tells when a parameter is read then, so where imported code speaks of these, no layer is read before its version has
come, and none of its units leave before backward has ended. So it is where `x.data = p` may make a tensor another one,
which asks nobody.

Not found: what names these in strings, as `getattr(torch, "nested")` does.
"""

from __future__ import annotations

import ast
from types import ModuleType

from engine.runtime import sources

_WORDS = frozenset(
    {
        "__torch_function__", "DisableTorchFunction", "DisableTorchFunctionSubclass", "jagged", "nested",
        "nested_tensor", "swap_tensors",
    }
)  # fmt: skip

_ATTRIBUTES = frozenset({"jagged", "nested"})
"""Words that variables and functions of anybody's may have for names: they count as attributes, and where imported."""

_READ: dict[int, tuple[ModuleType, int | None]] = {}
"""By id of a module, which is kept so that no other one gets it: the first line that has one of the words."""


def dispatches() -> str | None:
    """Where the first such code is, e.g. "model.py, line 12"; None where there is none."""
    for module in sources.imported():
        if id(module) not in _READ:
            _READ[id(module)] = module, _line(module)
        line = _READ[id(module)][1]
        if line is not None:
            return sources.place(module, line)
    return None


def _line(module: ModuleType) -> int | None:
    tree = sources.tree(module, {*_WORDS, ".data"})
    if tree is None:
        return None
    if isinstance(tree, SyntaxError):
        return tree.lineno or 1
    modes = {member for node in ast.walk(tree) for member in _of_a_mode(node)}
    found = (n for n in ast.walk(tree) if _takes_whole(n) or (n not in modes and _named(n) & _WORDS))
    lines = [getattr(node, "lineno", 1) for node in found]
    return min(lines, default=None)


def _takes_whole(node: ast.AST) -> bool:
    """Whether it is `x.data = p`, where `p` may be a parameter. `p.data` asks, and what a call answers has asked."""
    if not isinstance(node, ast.Assign):
        return False
    asks = isinstance(node.value, ast.Call | ast.BinOp | ast.Tuple) or (
        isinstance(node.value, ast.Attribute) and node.value.attr == "data"
    )
    return not asks and any(isinstance(t, ast.Attribute) and t.attr == "data" for t in node.targets)


def _of_a_mode(node: ast.AST) -> list[ast.stmt]:
    """A TorchFunctionMode's own methods: what a mode calls asks all tensors again."""
    modes = isinstance(node, ast.ClassDef) and any("TorchFunctionMode" in _named(base) for base in node.bases)
    return node.body if isinstance(node, ast.ClassDef) and modes else []


def _named(node: ast.AST) -> set[str]:
    """The names that a node of the tree gives or uses."""
    if isinstance(node, ast.Name):
        return {node.id} - _ATTRIBUTES
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name} - _ATTRIBUTES
    if isinstance(node, ast.Import | ast.ImportFrom):
        paths = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        return {part for path in paths for part in path.split(".")}
    return set()
