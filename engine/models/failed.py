"""Which module of a model raised an error: PyTorch's words name shapes, and no layer.

Read of the error's frames, which know who they belong to: no hook on anything, and a pass that succeeds costs nothing.
"""

from __future__ import annotations

import traceback

from torch import nn


def failed_in(model: nn.Module, error: BaseException) -> str:
    """`in module features.3, a Linear`: the innermost submodule of `model` that was called when `error` was raised; ""
    where it was none of them, but the model itself or its loss. The exception keeps its frames as long as it lives."""
    names = {id(module): name for name, module in model.named_modules()}
    found = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and (name := names.get(id(module))):
            found = f"in module {name}, a {type(module).__name__}"
    return found
