"""Which `torch.optim` optimizers a job may name, and what each needs to see at once. No torch here.

element  every element is updated from its own history: slices may be updated apart, on any server
tensor   the update looks at a whole parameter (its rows, its norm): only where parameters are whole, on workers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

OPTIMIZERS: dict[str, tuple[str, Literal["element", "tensor"]]] = {
    "sgd": ("SGD", "element"),
    "adam": ("Adam", "element"),
    "adamw": ("AdamW", "element"),
    "adamax": ("Adamax", "element"),
    "nadam": ("NAdam", "element"),
    "radam": ("RAdam", "element"),
    "rmsprop": ("RMSprop", "element"),
    "adagrad": ("Adagrad", "element"),
    "adadelta": ("Adadelta", "element"),
    "adafactor": ("Adafactor", "tensor"),
    "muon": ("Muon", "tensor"),
}
"""Job name -> (class in torch.optim, what it must see at once)."""

_STATE: dict[str, tuple[str, ...]] = {
    "sgd": (),
    "adam": ("exp_avg", "exp_avg_sq", "step"),
    "adamw": ("exp_avg", "exp_avg_sq", "step"),
    "adamax": ("exp_avg", "exp_inf", "step"),
    "nadam": ("exp_avg", "exp_avg_sq", "mu_product", "step"),
    "radam": ("exp_avg", "exp_avg_sq", "step"),
    "rmsprop": ("square_avg", "step"),
    "adagrad": ("sum", "step"),
    "adadelta": ("square_avg", "acc_delta", "step"),
}
_OPTIONAL_STATE: dict[tuple[str, str], str] = {
    ("sgd", "momentum"): "momentum_buffer",
    ("rmsprop", "momentum"): "momentum_buffer",
    ("rmsprop", "centered"): "grad_avg",
    ("adam", "amsgrad"): "max_exp_avg_sq",
    ("adamw", "amsgrad"): "max_exp_avg_sq",
}
"""(optimizer, option) -> what it keeps besides where that option is set."""
STEP_COUNT = "step"
SCALAR_STATE = (STEP_COUNT, "mu_product")
"""Of which a parameter has one float32 number; of the others one element for each of its own."""


def state_of(name: str, options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The tensors that an optimizer keeps for each parameter, as torch names them, scalars last; None where that is
    not known."""
    if name not in _STATE:
        return None
    more = tuple(
        slot
        for (optimizer, option), slot in _OPTIONAL_STATE.items()
        if optimizer == name and options.get(option)
    )
    return more + _STATE[name]


SCHEDULES: dict[str, str] = {
    "constant": "ConstantLR",
    "step": "StepLR",
    "multi-step": "MultiStepLR",
    "exponential": "ExponentialLR",
    "cosine": "CosineAnnealingLR",
    "linear": "LinearLR",
    "one-cycle": "OneCycleLR",
    "polynomial": "PolynomialLR",
}
"""Job name -> class in torch.optim.lr_scheduler. `constant` without options keeps the rate as it is."""
