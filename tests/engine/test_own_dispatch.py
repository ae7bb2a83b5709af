"""Which code of a user's decides itself what PyTorch's functions do with tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch.nn import Parameter

from engine.runtime.own_dispatch import dispatches
from engine.runtime.unwatched import why_unwatched
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
    "made another": "import torch\ndef f(x, p):\n    x.data = p",
    "swapped": "import torch\ntorch.utils.swap_tensors(torch.ones(1), torch.zeros(1))",
}
_NOT = {
    "a mode": (
        "from torch.overrides import TorchFunctionMode\nclass A(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n        return f(*a, **(k or {}))"
    ),
    "of a copy": (
        "import torch\ndef f(x, p):\n    x.data = p.data\n    x.data = p.clone()\n    y = p.data\n"
        "    x.data, y = y.data, p"
    ),
    "a variable": "import torch\nnested = [torch.zeros(1)]",
    "a function": "import torch\ndef nested(): ...\nnested()",
    "a word": "import torch\nx = 'DisableTorchFunction'  # __torch_function__",
    "no pytorch": "class A:\n    def __torch_function__(cls, *a): ...",
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
    assert why_unwatched(Parameter).startswith(found)


@pytest.mark.parametrize("how", _NOT)
def test_other_code_keeps_no_layer_waiting(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_NOT[how])
    assert dispatches() is None
