"""Parameters that are not in the plan, so that nothing of theirs travels: those that were frozen when the model was
built, and those that it adds while it trains, which are each worker's own under PyTorch's DDP, too.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from engine.errors import TrainingError


class Outside:
    """Watches that none of them is to be trained. What is frozen and thawed while training runs was trainable at the
    beginning."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._known = {name for name, _ in model.named_parameters()}
        self._frozen = [(name, p) for name, p in model.named_parameters() if not p.requires_grad]
        self._given = False
        """Whether some module was given a parameter or a module since the last look: names are not compared in every
        step."""
        self._hooks = ExitStack()
        for register in (
            register_module_module_registration_hook,
            register_module_parameter_registration_hook,
        ):
            self._hooks.callback(register(self._on_given).remove)

    def check(self, step: int) -> None:
        """Raises TrainingError where one is to be trained."""
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise TrainingError(
                    f"{name} was frozen when the model was built, and is to be trained in step {step}: what is frozen"
                    " then is not in the plan. Build the model with it trainable, and freeze it in forward"
                )
        if self._given:
            self._given = False
            self._check_added(step)

    def close(self) -> None:
        """Look no more."""
        self._hooks.close()

    def _check_added(self, step: int) -> None:
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and name not in self._known:
                raise TrainingError(
                    f"the model has {name} only since step {step}: what it adds while it trains is not in the plan, so"
                    " nobody would train it, and each worker would have values of its own. Create it in __init__"
                )

    def _on_given(self, module: nn.Module, name: str, given: Any) -> None:
        self._given = True
