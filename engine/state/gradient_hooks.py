"""Gradient hooks: who has to know when a parameter's gradient is final, and hears of it after a user's own hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from engine.state.capture import Capture


class GradientHooks:
    """One on each parameter of a worker."""

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        captured: Mapping[str, Capture],
        on_gradient: Callable[[str], Callable[[Tensor], None]],
    ) -> None:
        """`captured`: the parameters whose capture says when their gradient is final. `on_gradient(name)` makes what is
        called then."""
        self._parameters = parameters
        self._handles: dict[str, RemovableHandle] = {}
        self._install: dict[str, Callable[[], RemovableHandle]] = {}
        for name, parameter in parameters.items():
            plain = Parameter.register_post_accumulate_grad_hook
            hook = captured[name].when_final if name in captured else plain
            self._install[name] = partial(hook, parameter, on_gradient(name))
            self._handles[name] = self._install[name]()

    def keep_last(self) -> None:
        """What hooks of the user's own do to a gradient, they do before it leaves."""
        for name, handle in self._handles.items():
            parameter: Any = self._parameters[name]
            if next(reversed(parameter._post_accumulate_grad_hooks)) != handle.id and parameter.requires_grad:
                handle.remove()
                self._handles[name] = self._install[name]()
