"""Unwatched: which parameters nobody would be told of who reads them, because of what a user's code does."""

from __future__ import annotations

from typing import Any

import torch

from engine.instrumentation.class_identity import asks
from engine.instrumentation.own_dispatch import dispatches
from engine.instrumentation.typed_constructors import constructs
from engine.instrumentation.users_classes import may_compare

ASKS_NOBODY = torch._C._disabled_torch_function_impl
"""What a class has in place of a `__torch_function__` where PyTorch is to ask nobody. Parameter has it, Tensor not."""


def why_unwatched(own: Any) -> str:
    """Why a parameter of the class `own` is not watched, as "model.py, line 12, does this"; empty where it may be."""
    if code := asks(own) or may_compare(own) or dispatches() or constructs():
        return code
    if own.__torch_function__ is not ASKS_NOBODY:
        return f"{own.__name__}, the class of its parameters, decides itself what PyTorch's functions do with them"
    return ""
