"""What a model's modules hold in their attributes: whether running forward has changed it, and as it was before.

Tracing runs forward once, with stand-ins in place of tensors. What forward keeps from call to call (a count, a buffer
that it replaces, the last batch's mean) is then a constant of the traced pass, or one of these stand-ins.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from engine.instrumentation.containers import CONTAINERS, contents, refill

_DICTIONARIES = ("_parameters", "_buffers", "_modules")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONSTANT = "_tensor_constant"
"""So torch.fx calls tensors that forward makes of nothing; it puts them on the root."""
_NOTHING: Any = object()


class Held:
    """The attributes of a model's modules at the time when this is made."""

    def __init__(self, model: nn.Module) -> None:
        self._root = model
        self._held = {module: _dictionaries(module) for module in model.modules()}
        self._contents = {
            id(value): (value, contents(value))
            for dictionaries in self._held.values()
            for value in dictionaries[""].values()
            if isinstance(value, CONTAINERS)
        }
        """Of lists and the like, which forward may write to."""

    def changed(self) -> str | None:
        """The name of an attribute that is not what it was; None where there is none."""
        for name, module in self._root.named_modules():
            if module not in self._held:
                return name
            now = _dictionaries(module)
            for kind, before in self._held[module].items():
                for key in sorted(before.keys() | now[kind].keys()):
                    if not self._same(before.get(key, _NOTHING), now[kind].get(key, _NOTHING), key):
                        return f"{name}.{key}".lstrip(".")
        return None

    def put_back(self) -> None:
        """Let every attribute be what it was."""
        for value, content in self._contents.values():
            if _identities(content) != _identities(contents(value)):
                refill(value, content)
        for module, dictionaries in self._held.items():
            now = _dictionaries(module)
            for kind, before in dictionaries.items():
                where = vars(module)[kind] if kind else vars(module)
                for key in now[kind].keys() - before.keys():
                    del where[key]
                where.update(before)

    def _same(self, before: Any, now: Any, key: str) -> bool:
        if before is now:
            content = self._contents.get(id(before))
            return content is None or _identities(content[1]) == _identities(contents(now))
        if key.startswith(_CONSTANT):
            return before is _NOTHING and isinstance(now, Tensor)
        return isinstance(now, _PLAIN) and type(before) is type(now) and before == now


def _dictionaries(module: nn.Module) -> dict[str, dict[str, Any]]:
    """Copies of its parameters, buffers and modules, and, under no name, of all other attributes but its mode and its
    hooks."""
    own = {
        key: value
        for key, value in vars(module).items()
        if key not in ("training", *_DICTIONARIES) and not (key.startswith("_") and key.endswith("hooks"))
    }
    # What was traced by TorchScript has them in C++, where Python keeps nothing else.
    return {"": own, **{name: dict(vars(module)[name]) for name in _DICTIONARIES if name in vars(module)}}


def _identities(content: list[Any]) -> list[int]:
    return [id(part) for part in content]
