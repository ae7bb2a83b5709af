"""Who reads a gathered parameter after fully_shard has given up its memory. PyTorch reads where nothing is, and the
process ends by SIGSEGV, without a word.

Every computation of the first `Turns.FIRST` steps is looked at, from the beginning of forward to the loss. A view of
such a parameter, or a tensor like it, reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.errors import TrainingError

_SHAPE_ONLY = ("_like", "::new_", "::_has_", "::detach", "::alias", "::set_", "::resize_")
"""In the names of operations that look at no element."""


class FreedReads(TorchDispatchMode):
    """Raises TrainingError where something computes with such a parameter, by the path that `path_of` finds."""

    supports_higher_order_operators = True

    def __init__(self, path_of: Callable[[Tensor], str | None]) -> None:
        super().__init__()
        self._path_of = path_of

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if not (getattr(func, "is_view", True) or any(part in func.name() for part in _SHAPE_ONLY)):
            for tensor in tree_leaves((args, given)):
                if type(tensor) in (Tensor, Parameter) and _is_freed(tensor):
                    self._refuse(tensor)
        return func(*args, **given)

    def _refuse(self, tensor: Tensor) -> None:
        path = self._path_of(tensor)
        if path is not None:
            raise TrainingError(
                f"{path} is read after `fsdp` has given up the whole of it: that is there only while the group of"
                " modules that it belongs to is called, and what was kept of it in the call (the parameter itself, a"
                " view of it, what detach() gives) is empty afterwards. Read it in its own module, set `group_bytes` so"
                " high that one group holds the module and whoever reads it, or choose ddp, or another strategy"
            )


def _is_freed(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and tensor.device.type != "meta" and tensor.untyped_storage().nbytes() == 0
