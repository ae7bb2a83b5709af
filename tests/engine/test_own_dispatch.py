"""Which code of a user's decides itself what PyTorch's functions do with tensors."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch.nn import Parameter

from engine.instrumentation.own_dispatch import dispatches
from engine.instrumentation.unwatched import why_unwatched
from tests.engine.conftest import NAME

_DISPATCHING = {
    "a tensor": "import torch\nclass A(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *a): ...",
    "a duck": "import torch\nclass A:\n    @classmethod\n    def __torch_function__(cls, *a): ...",
    "switched off": "import torch\ndef f(x):\n    with torch._C.DisableTorchFunctionSubclass():\n        return x + 1",
    "imported": "from torch._C import DisableTorchFunction",
    "renamed": "from torch.nested import nested_tensor as n",
    "jagged": "import torch\nx = torch.zeros(2, layout=torch.jagged) if False else None",
    "nested": "from torch.nested import narrow",
    "inside": "def f(x):\n    import torch\n    with torch._C.DisableTorchFunction():\n        return x + 1",
    "asked for": "import torch\ndef f(p):\n    return torch.overrides.has_torch_function((p,))",
    "a mode and a tensor": (
        "import torch\nfrom torch.overrides import TorchFunctionMode\nclass A(TorchFunctionMode, torch.Tensor):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n        return f(*a, **(k or {}))"
    ),
    "asks nobody": "import torch\ndef f(x):\n    return torch._C._disabled_torch_function_impl(abs, (), (x,), {})",
    "the C function's": "import torch\ndef f(p):\n    return torch._C._has_torch_function_unary(p)",
    "switched off of another": (
        "import torch\ndef f(p):\n    type(p).__torch_function__ = torch._C._disabled_torch_function_impl"
    ),
    "in a function": "def f(x):\n    import torch as t\n    return t.nested.nested_tensor([x])",
    "a part, in a function": "def f(x):\n    import torch.nn\n    return torch.nested.nested_tensor([x])",
    "at the end of a chain": "import types\nimport torch\nlib = types.SimpleNamespace(th=torch)\nlib.th.nested",
    "torch by another's help": "class A:\n    def __torch_function__(cls, *a): ...",
    "swapped": "import torch\ntorch.utils.swap_tensors(torch.ones(1), torch.zeros(1))",
}
_NOT = {
    "a mode": (
        "from torch.overrides import TorchFunctionMode\nclass A(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n        return f(*a, **(k or {}))"
    ),
    "a mode of a mode": (
        "from torch.overrides import TorchFunctionMode\nclass A(TorchFunctionMode): ...\nclass B(A):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n        return f(*a, **(k or {}))"
    ),
    "by data": "import torch\ndef f(self, x, data):\n    x.data = self.data = data",
    "a class that asks nobody": (
        "import torch\nclass A(torch.Tensor):\n    __torch_function__ = torch._C._disabled_torch_function_impl"
    ),
    "another class that asks nobody": (
        "import torch\nfrom typing import Any\nclass A(torch.Tensor):\n"
        "    __torch_function__: Any = torch._C._disabled_torch_function_impl"
    ),
    "a question whose answer is to ask": (
        "from torch.overrides import handle_torch_function, has_torch_function_unary\n"
        "def f(x):\n    if has_torch_function_unary(x):\n        return handle_torch_function(f, (x,), x)\n    return x"
    ),
    "its own attribute": "import torch\nclass A:\n    def f(self, c):\n        return self.nested or c.jagged",
    "another's attribute": "import torch\nimport types\nconfig = types.SimpleNamespace(nested=1)\nconfig.nested",
    "a variable": "import torch\nnested = [torch.zeros(1)]",
    "a function": "import torch\ndef nested(): ...\nnested()",
    "a word": "import torch\nx = 'DisableTorchFunction'  # __torch_function__",
}


def test_nothing_of_these_tests_does() -> None:
    """Else every gate of this process would be disabled."""
    assert dispatches() is None


@pytest.mark.parametrize("how", _DISPATCHING)
def test_such_code_is_found(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_DISPATCHING[how])
    found = dispatches()
    assert found is not None
    assert found.startswith(f"{NAME}.py, line ")
    assert why_unwatched(Parameter) == found


def test_a_module_is_read_whatever_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of one of Python's, and from an archive."""
    archive = tmp_path / "own.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("this.py", _DISPATCHING["switched off"])
    monkeypatch.syspath_prepend(archive)
    assert "this" not in sys.modules, "importing Python's own prints its Zen"
    importlib.import_module("this")
    try:
        assert dispatches() == "this.py, line 3, uses DisableTorchFunctionSubclass"
    finally:
        del sys.modules["this"]


class _Failing(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        raise ImportError(f"install the optional dependency: {name}")


def test_modules_that_cannot_be_read_are_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / "deep.py"
    deep.write_text("import torch\nnested = " + "-" * 5000 + "1")
    without_text = ModuleType("without_text")
    without_text.__file__ = deep.with_name("none.py")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "failing", _Failing("failing"))
    monkeypatch.setitem(sys.modules, "without_text", without_text)
    monkeypatch.setitem(sys.modules, "no_module", object())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, 5, ModuleType("five"))  # type: ignore[arg-type]
    assert dispatches() is None
    without_text.__file__ = str(deep)
    changed = ModuleType("changed")
    changed.__file__ = str(deep)
    monkeypatch.setitem(sys.modules, "changed", changed)
    assert dispatches() == "deep.py, line 1, cannot be read as Python: it nests too deeply"


@pytest.mark.parametrize("how", _NOT)
def test_other_code_keeps_no_layer_waiting(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_NOT[how])
    assert dispatches() is None
