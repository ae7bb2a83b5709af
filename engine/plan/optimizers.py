"""Which `torch.optim` optimizers a job may name, and what each needs to see at once. No torch here.

element  every element is updated from its own history: slices may be updated apart, on any server
tensor   the update looks at a whole parameter (its rows, its norm): only where parameters are whole, on workers
"""

from __future__ import annotations

from typing import Literal

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
