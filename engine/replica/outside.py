"""Parameters that are not in the plan, so that nothing of theirs travels: those that were frozen when the model was
built, and those that it has been given since, which no optimizer would know in a plain loop either, and of which each
worker would have its own under PyTorch's DDP.
"""

from __future__ import annotations

from torch import nn

from engine.errors import TrainingError

_FROZEN = (
    "{name} was frozen when the model was built, and is to be trained in step {step}: what is frozen then is not in the"
    " plan. Build the model with it trainable, and freeze it in forward"
)
_ADDED = (
    "{name} has come to the model, or has replaced another parameter, while it trains (seen in step {step}): it is not"
    " in the plan, so nobody would train it, and each worker may have values of its own. Create it in __init__, or set"
    " its requires_grad to False if it is not to be trained"
)


_RENAMED = (
    "the model had no {name} when it was built (seen in step {step}), and `fsdp` knows parameters by their names."
    " Leave them where they are, or choose ddp, or another strategy"
)


class Outside:
    """Watches that none of them is to be trained. What is frozen and thawed while training runs was trainable at the
    beginning. A parameter that moves to another module, or has another name, is the same."""

    def __init__(self, model: nn.Module, *, by_name: bool = False) -> None:
        """`by_name`: the same parameter is another object from time to time, as where parts are gathered; then it is
        known by its name."""
        self._model = model
        self._by_name = by_name
        self._trainable = {self._key(*found): found[1].requires_grad for found in model.named_parameters()}
        """When the model was built."""

    def check(self, step: int) -> None:
        """Raises TrainingError where one is to be trained. It looks at all parameters, for models also write to their
        modules' tables, which no hook tells."""
        for name, parameter in self._model.named_parameters():
            if not parameter.requires_grad:
                continue
            was_trainable = self._trainable.get(self._key(name, parameter))
            if was_trainable is None:
                raise TrainingError((_RENAMED if self._by_name else _ADDED).format(name=name, step=step))
            if not was_trainable:
                raise TrainingError(_FROZEN.format(name=name, step=step))

    def _key(self, name: str, parameter: nn.Parameter) -> str | nn.Parameter:
        return name if self._by_name else parameter
