"""Which `torch.optim` optimizers a job may name, and what each needs to see at once. No torch here.

element  every element is updated from its own history: slices may be updated apart, on any server
tensor   the update looks at a whole parameter (its rows, its norm): only where parameters are whole, on workers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Literal

from engine.errors import UnknownNameError, UserError

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


def state_elements(name: str, options: Mapping[str, Any], shape: Sequence[int]) -> tuple[list[int], int]:
    """How many numbers an optimizer keeps for a parameter, or a part of one, of this shape: in each tensor of the
    parameter's type, and single ones of four bytes."""
    count = prod(shape)
    if name == "muon":
        return [count], 0
    if name == "adafactor":  # of a matrix, one for each row and each column
        return ([count // shape[-1], count // shape[-2]] if len(shape) > 1 and count else [count]), 1
    slots = state_of(name, options) or ()
    single = sum(slot in SCALAR_STATE for slot in slots)
    return [count] * (len(slots) - single), single


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

_KERNELS = "foreach maximize differentiable"
_ADAM = f"betas eps weight_decay capturable {_KERNELS}"
_OPTIONS: dict[str, str] = {
    "sgd": f"momentum dampening weight_decay nesterov fused {_KERNELS}",
    "adam": f"{_ADAM} amsgrad fused decoupled_weight_decay",
    "adamw": f"{_ADAM} amsgrad fused",
    "adamax": _ADAM,
    "nadam": f"{_ADAM} momentum_decay decoupled_weight_decay",
    "radam": f"{_ADAM} decoupled_weight_decay",
    "rmsprop": f"alpha eps weight_decay momentum centered capturable {_KERNELS}",
    "adagrad": f"lr_decay weight_decay initial_accumulator_value eps fused {_KERNELS}",
    "adadelta": f"rho eps weight_decay capturable {_KERNELS}",
    "adafactor": "beta2_decay eps d weight_decay foreach maximize",
    "muon": "weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn",
}
"""What each class takes besides parameters and `lr`; a test holds it against torch's signatures."""
_SCHEDULE_OPTIONS: dict[str, str] = {
    "constant": "factor total_iters",
    "step": "step_size gamma",
    "multi-step": "milestones gamma",
    "exponential": "gamma",
    "cosine": "T_max eta_min",
    "linear": "start_factor end_factor total_iters",
    "one-cycle": "max_lr total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum base_momentum "
    "max_momentum div_factor final_div_factor three_phase",
    "polynomial": "total_iters power",
}
_NEEDED = {"step": "step_size", "multi-step": "milestones", "exponential": "gamma"}


def optimizer_options(name: str) -> tuple[str, ...]:
    """What may be set of the optimizer `name`, besides its learning rate."""
    return tuple(_OPTIONS[name].split())


def schedule_options(name: str) -> tuple[str, ...]:
    """What may be set of the schedule `name`."""
    return tuple(_SCHEDULE_OPTIONS[name].split())


def check_known(given: Mapping[str, Any], known: Iterable[str], owner: str, field: str) -> None:
    """Raises UnknownNameError at `field` for options that `owner` does not have."""
    known = tuple(known)
    for name in given:
        if name == "lr" and name not in known:
            rule = "the learning rate is a field of its own"
            raise UserError(f"{field}.lr", given[name], rule, "Give optimizer.learning_rate")
        if name not in known:
            raise UnknownNameError(f"{field}.{name}", name, f"option of {owner}", known)


def check_needed(schedule: str, given: Mapping[str, Any], field: str) -> None:
    """Raises UserError at `field` where a schedule lacks the option that it cannot do without."""
    needed = _NEEDED.get(schedule)
    if needed is not None and needed not in given:
        raise UserError(field, dict(given), f"{schedule} needs {needed}", f"Give {field}.{needed}")
    size = given.get("step_size", 1)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise UserError(f"{field}.step_size", size, "is not a whole number of steps, 1 or more", "Give one")
