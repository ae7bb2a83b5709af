"""Which code may give a parameter to a typed constructor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch.nn import Parameter

from engine.instrumentation.typed_constructors import constructs
from engine.instrumentation.unwatched import why_unwatched
from tests.engine.conftest import NAME

_FOUND = {
    "called": "import torch\ndef f(p):\n    return torch.DoubleTensor(p)",
    "imported": "from torch import FloatTensor\ndef f(p):\n    return FloatTensor(p)",
    "renamed": "from torch import FloatTensor as F\ndef f(p):\n    return F(p)",
    "in a function": "def f(p):\n    import torch as t\n    return t.HalfTensor(p)",
    "imported in a function": "def f(p):\n    from torch import HalfTensor as H\n    return H(p)",
    "by another name": "import torch\nT = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor",
    "given away": "import torch\ndef f(ps):\n    return list(map(torch.BFloat16Tensor, ps))",
    "an attribute": "import torch\nclass A:\n    def __init__(self):\n        self.make = torch.FloatTensor",
    "of what is known later": "import torch\ndef f(lib, p):\n    return lib.FloatTensor(p)",
    "on a device": "import torch\ndef f(p):\n    return torch.cuda.DoubleTensor(p)",
    "sparse": "import torch\ndef f(i, p):\n    return torch.sparse.FloatTensor(i, p)",
    "by keyword": "import torch\ndef f(p):\n    return torch.FloatTensor(other=p)",
    "unpacked": "import torch\ndef f(p):\n    return torch.FloatTensor(*p)",
}
_NOT = {
    "numbers": "import torch\nx = torch.FloatTensor([1.0, 2.0]), torch.FloatTensor(3, 4), torch.FloatTensor(-1 + 2)",
    "elements": "import torch\ndef f(p):\n    return torch.FloatTensor([p[0], 1]), torch.FloatTensor([a for a in p])",
    "sizes": "import torch\ndef f(p):\n    return torch.FloatTensor(p.size()), torch.FloatTensor(*p.shape)",
    "arrays": "import numpy as np\nimport torch\ndef f(a):\n    return torch.FloatTensor(np.random.rand(3))",
    "annotations": "import torch\nT = torch\ndef f(p: T.FloatTensor) -> T.FloatTensor:\n    q: T.FloatTensor = p",
    "a generic": "from typing import Optional\nimport torch\nMaybe = Optional[torch.FloatTensor]",
    "asked for": "import torch\ndef f(p):\n    return isinstance(p, torch.FloatTensor) and p.type(torch.DoubleTensor)",
    "of integers": "import torch\ndef f(a):\n    return torch.LongTensor(a)",
    "an import alone": "from torch import FloatTensor",
    "its own": "import torch\nclass FloatTensor:\n    def __init__(self, p): ...\nFloatTensor(1)",
    "words": 'import torch\nx = "torch.FloatTensor(p)"  # torch.FloatTensor(p)',
}


def test_nothing_of_these_tests_does() -> None:
    """Else every gate of this process would be disabled."""
    assert constructs() is None


@pytest.mark.parametrize("how", _FOUND)
def test_such_code_is_found(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_FOUND[how])
    found = constructs()
    assert found is not None
    assert found.startswith(f"{NAME}.py, line ")
    assert "may give a parameter to " in found
    assert why_unwatched(Parameter) == found


@pytest.mark.parametrize("how", _NOT)
def test_other_code_keeps_no_layer_waiting(how: str, user_module: Callable[[str], Path]) -> None:
    user_module(_NOT[how])
    assert constructs() is None
