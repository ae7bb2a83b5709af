"""How parameters are updated: the optimizer, its groups, and how the learning rate changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from engine.catalogue import STRICT
from engine.errors import UnknownNameError, require_positive
from engine.plan.optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    check_known,
    check_needed,
    optimizer_options,
    schedule_options,
    state_elements,
)
from engine.plan.option_values import check_values

OFFLOADED_BYTES = 16384
"""Tensors of an optimizer's state that are smaller stay in memory: each takes whole pages elsewhere."""
_SINGLE_BYTES = 4
"""Of a number that an optimizer keeps for a whole parameter."""
_MOMENTUM = 0.9
"""One that there is, whatever a schedule makes of it."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroupSpec:
    """Optimizer settings of their own for the parameters whose names match."""

    __pydantic_config__ = STRICT

    match: str
    """A pattern as in file names, e.g. `*.bias`; the first group that matches a parameter takes it."""
    options: dict[str, Any] = field(default_factory=dict)
    """torch.optim arguments that differ for this group, e.g. weight_decay."""


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """An ordinary torch.optim optimizer."""

    __pydantic_config__ = STRICT

    name: str = "sgd"
    """sgd, adam, adamw, rmsprop, adagrad and others of torch.optim."""
    learning_rate: float = 0.1
    """The learning rate, at the global batch's scale."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the torch.optim class, e.g. momentum, weight_decay, nesterov."""
    groups: tuple[ParameterGroupSpec, ...] = ()
    """Parameter groups with options of their own."""
    offload: bool = False
    """Keep its state in a second tier of memory, and update there: for a CUDA device on the host. Where the model
    trains on the host, device and host are one memory, and the state is in a file on a disk. Results are the same."""

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise UnknownNameError("name", self.name, "optimizer", OPTIMIZERS)
        require_positive("learning_rate", self.learning_rate, "the step's length")

    @property
    def elementwise(self) -> bool:
        """Whether slices of a parameter may be updated apart."""
        return OPTIMIZERS[self.name][1] == "element"

    def group_of(self, parameter: str) -> int:
        """The parameter group of a parameter: 0 for the defaults, i for `groups[i - 1]`."""
        return next((i for i, g in enumerate(self.groups, 1) if fnmatchcase(parameter, g.match)), 0)

    def options_of(self, parameter: str) -> dict[str, Any]:
        """The arguments of the torch.optim class for a parameter."""
        group = self.group_of(parameter)
        return {**self.options, **(self.groups[group - 1].options if group else {})}


@dataclass(frozen=True, kw_only=True)
class ScheduleSpec:
    """How the learning rate changes, step by step."""

    __pydantic_config__ = STRICT

    name: str = "constant"
    """constant, step, multi-step, exponential, cosine, linear, one-cycle or polynomial."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the torch.optim.lr_scheduler class, counted in steps. `T_max`, `total_steps` and `total_iters`
    default to the job's length where the class needs one."""

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise UnknownNameError("name", self.name, "schedule", SCHEDULES)


def as_scheduled(optimizer: OptimizerSpec, schedule: ScheduleSpec) -> OptimizerSpec:
    """`optimizer` with a momentum where the schedule gives it one."""
    moves = schedule.name == "one-cycle" and schedule.options.get("cycle_momentum", True) is not False
    if not moves or "momentum" not in optimizer_options(optimizer.name):
        return optimizer

    def moved(options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "momentum": options.get("momentum") or _MOMENTUM}

    groups = tuple(replace(group, options=moved(group.options)) for group in optimizer.groups)
    return replace(optimizer, options=moved(optimizer.options), groups=groups)


def state_bytes(optimizer: OptimizerSpec, parameter: str, shape: Sequence[int], element_bytes: int) -> int:
    """Of what the optimizer keeps in memory for a parameter, or a part of one, of this shape."""
    elements, single = state_elements(optimizer.name, optimizer.options_of(parameter), shape)
    sizes = [count * element_bytes for count in elements]
    if optimizer.offload:
        sizes = [size for size in sizes if size < OFFLOADED_BYTES]
    return sum(sizes) + single * _SINGLE_BYTES


def check_updates(optimizer: OptimizerSpec, schedule: ScheduleSpec) -> None:
    """Refuse options that torch's classes do not have, and values that they refuse, for a job that is to run. A
    specification is read without: what was stored under another version of torch stays readable."""
    known = optimizer_options(optimizer.name)
    check_known(optimizer.options, known, optimizer.name, "optimizer.options")
    check_values(optimizer.name, optimizer.options, "optimizer.options")
    for number, group in enumerate(optimizer.groups):
        where = f"optimizer.groups.{number}.options"
        check_known(group.options, ("lr", *known), optimizer.name, where)
        # Nesterov's switch goes without effect where a group has no momentum, and nobody wrote it there.
        given = group.options.keys() | {"nesterov"}
        inherited = {key: value for key, value in optimizer.options.items() if key not in given}
        check_values(optimizer.name, {**inherited, **group.options}, where)
    check_known(schedule.options, schedule_options(schedule.name), schedule.name, "schedule.options")
    check_needed(schedule.name, schedule.options, "schedule.options")
