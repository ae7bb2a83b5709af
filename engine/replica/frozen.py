"""Parameters that were frozen when the model was built: the plan does not know them, so nothing of theirs travels."""

from __future__ import annotations

from torch import nn

from engine.errors import TrainingError


class Frozen:
    """Watches that they stay frozen. What is frozen and thawed while training runs was trainable at the beginning."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [(name, p) for name, p in model.named_parameters() if not p.requires_grad]

    def check(self, step: int) -> None:
        """Raises TrainingError where one is to be trained."""
        for name, parameter in self._parameters:
            if parameter.requires_grad:
                raise TrainingError(
                    f"{name} was frozen when the model was built, and is to be trained in step {step}: what is frozen"
                    " then is not in the plan. Build the model with it trainable, and freeze it in forward"
                )
