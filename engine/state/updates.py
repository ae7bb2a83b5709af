"""Updates: ordinary torch.optim optimizers, applied to whole layers on workers or to pieces on servers.

A worker has one optimizer, and updates those of its parameters whose sums are there; a server has one for each unit,
and a device that layers are placed on has one for each layer.
Every optimizer here updates each parameter by itself, so that this equals one step over all of them. Hyper-parameters
that a schedule changes are computed where the update runs, for the step that it belongs to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from engine.errors import TrainingError, UserError
from engine.plan.optimizers import OPTIMIZERS, SCALAR_STATE, SCHEDULES, optimizer_options
from engine.plan.updates import OptimizerSpec, ScheduleSpec
from engine.state.optimizer_state import load_state, state_of

Hyper = list[dict[str, Any]]
"""For each parameter group: the values that a schedule may change in a step."""

_SCHEDULED = ("lr", "momentum", "betas")
_REMEMBERED = 4096
"""Steps whose values a schedule keeps."""
_GROUP = "trainyard_group"


def build_optimizer(spec: OptimizerSpec, named: Iterable[tuple[str, Tensor]]) -> torch.optim.Optimizer:
    """A torch.optim optimizer over `named` tensors with the groups of `spec`. Raises UserError for bad options."""
    groups: dict[int, list[Tensor]] = {}
    for name, tensor in named:
        groups.setdefault(spec.group_of(name), []).append(tensor)
    return _optimizer(spec, groups)


def _optimizer(spec: OptimizerSpec, groups: Mapping[int, list[Tensor]]) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, OPTIMIZERS[spec.name][0])
    settings = [
        {"params": tensors, _GROUP: index, **(spec.groups[index - 1].options if index else {})}
        for index, tensors in sorted(groups.items())
    ]
    try:
        optimizer: torch.optim.Optimizer = kind(settings, lr=spec.learning_rate, **spec.options)
    except (TypeError, ValueError) as error:
        raise UserError(
            "optimizer.options",
            spec.options,
            f"{kind.__name__} refuses them: {error}",
            "See torch.optim's documentation",
        ) from None
    return optimizer


def apply_hyper(optimizer: torch.optim.Optimizer, hyper: Hyper) -> None:
    """Set the values of one step."""
    for group in optimizer.param_groups:
        for key, value in hyper[group[_GROUP]].items():
            group[key] = tuple(value) if isinstance(value, list) else value


def clip_gradients(parameters: Mapping[str, Parameter], limit: float) -> None:
    """Scale all gradients so that their global norm is at most `limit`. Raises TrainingError for one that is not
    dense."""
    for name, parameter in parameters.items():
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            raise TrainingError(
                f"the gradient of {name} is {parameter.grad.layout}, of which torch takes no norm. Build the layer with"
                " sparse=False, or leave training.clip_norm out"
            )
    torch.nn.utils.clip_grad_norm_(parameters.values(), limit)


def plain_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state_dict of `build_optimizer`'s, as another one of its class loads it."""
    found = optimizer.state_dict()
    for group in found["param_groups"]:
        del group[_GROUP]
    return found


class Away(Protocol):
    """A second tier of memory in which an optimizer's state is (`engine/memory/offload.py`)."""

    def twin(self, parameter: Tensor) -> Tensor:
        """What the optimizer is given in a parameter's place: itself, where it may be updated where it is."""
        ...

    def updating(self, parameter: Tensor, twin: Tensor) -> AbstractContextManager[None]:
        """Around the update of a parameter from its `.grad`."""
        ...

    def keep(self, parameter: Tensor, state: dict[str, Any]) -> None:
        """The optimizer keeps this of a parameter, or of its twin: put what is there in place of what is not."""
        ...


class Updater:
    """Updates parameters in place from their `.grad`, on a worker or a device."""

    def __init__(self, spec: OptimizerSpec, named: Mapping[str, Parameter], away: Away | None = None) -> None:
        """`away`: where the optimizer's state is; None: beside the parameters."""
        self._away = away
        self._twin: dict[int, Tensor] = {id(p): p if away is None else away.twin(p) for p in named.values()}
        """By a parameter's identity: what the optimizer has in its place."""
        self._parameters = dict(named)
        self._named = {name: self._twin[id(p)] for name, p in named.items()}
        self._optimizer = build_optimizer(spec, self._named.items())
        self._step = _bare_step(self._optimizer)
        self._all = [(group, group["params"]) for group in self._optimizer.param_groups]
        self._group_of = {id(p): group for group, parameters in self._all for p in parameters}
        for parameter in self._parameters.values():
            self._keep(parameter)

    def update(self, hyper: Hyper, chosen: Iterable[Parameter] | None = None) -> None:
        """One step of all parameters, or of the `chosen` ones; those without gradient are left alone, decay included.

        A call costs some 50 µs and a parameter 15 µs more, so that many are best updated at once; where the state is
        away, 50 µs for each. Raises TrainingError for what this optimizer does not take: a sparse gradient, complex
        numbers."""
        apply_hyper(self._optimizer, hyper)
        if self._away is not None:
            self._update_away(self._away, self._parameters.values() if chosen is None else chosen)
            return
        with nullcontext() if chosen is None else self._only(chosen):
            self._take_step()

    def _update_away(self, away: Away, chosen: Iterable[Parameter]) -> None:
        """One after the other, so that the state of one at a time is in memory."""
        for parameter in chosen:
            twin = self._twin[id(parameter)]
            with away.updating(parameter, twin), self._only([twin]):
                self._take_step()
            self._keep(parameter)

    def _take_step(self) -> None:
        try:
            self._step()
        except RuntimeError as error:
            raise _refused(self._optimizer, error) from error

    def _keep(self, parameter: Tensor) -> None:
        twin = self._twin[id(parameter)]
        if self._away is not None and twin in self._optimizer.state:
            self._away.keep(parameter, self._optimizer.state[twin])

    @contextmanager
    def _only(self, chosen: Iterable[Tensor]) -> Iterator[None]:
        """The optimizer has no other parameters meanwhile; it keeps what it knows of them."""
        here: dict[int, list[Tensor]] = {group[_GROUP]: [] for group, _ in self._all}
        for parameter in chosen:
            here[self._group_of[id(parameter)][_GROUP]].append(parameter)
        for group, _ in self._all:
            group["params"] = here[group[_GROUP]]
        self._optimizer.param_groups = [group for group, _ in self._all if group["params"]]
        try:
            yield
        finally:
            for group, parameters in self._all:
                group["params"] = parameters
            self._optimizer.param_groups = [group for group, _ in self._all]

    @property
    def names(self) -> set[str]:
        """Of what it updates."""
        return set(self._named)

    def state(self) -> dict[str, Tensor]:
        """Views of what the optimizer goes on from, by parameter and slot."""
        return state_of(self._optimizer, self._named)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same parameters."""
        load_state(self._optimizer, self._named, state, lambda name: self._keep(self._parameters[name]))

    def slot(self, parameter: Parameter, slot: str) -> Tensor | None:
        """A tensor that the optimizer keeps for `parameter`; None where it keeps none yet."""
        found: Tensor | None = self._optimizer.state.get(self._twin[id(parameter)], {}).get(slot)
        return found

    def set_slot(self, parameter: Parameter, slot: str, value: Tensor) -> None:
        """Let the optimizer keep a copy of `value` for `parameter`."""
        kept = self.slot(parameter, slot)
        if kept is not None:
            kept.copy_(value)
        else:  # torch's optimizers count on the host
            twin = self._twin[id(parameter)]
            device = torch.device("cpu") if slot in SCALAR_STATE else twin.device
            self._optimizer.state[twin][slot] = value.to(device, copy=True)
        self._keep(parameter)


def _bare_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """Its `step`, without the profiler's wrapper, which takes as long as the update of a small layer or slice. The
    wrapper also calls hooks of all optimizers: where there is one, the step raises TrainingError."""
    step: Any = type(optimizer).step
    bare = partial(step.__wrapped__ if getattr(step, "hooked", False) else step, optimizer)

    def checked() -> Any:
        if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
            raise TrainingError(
                "the user's code has registered a hook of all optimizers' steps"
                " (register_optimizer_step_pre_hook or register_optimizer_step_post_hook), and a step is taken in parts"
                " here, on several processes. Do in forward what the hook does"
            )
        return bare()

    return checked


def _refused(optimizer: torch.optim.Optimizer, error: RuntimeError) -> TrainingError:
    remedy = "Build the layer with sparse=False" if "sparse" in str(error) else "Choose another optimizer"
    return TrainingError(
        f"torch.optim.{type(optimizer).__name__} refuses what it should update: {error}. {remedy}, or use plain sgd"
    )


class PieceUpdater:
    """Updates the pieces of one unit in place, on a server."""

    def __init__(
        self, spec: OptimizerSpec, names: Sequence[str], pieces: Sequence[Tensor], away: Away | None = None
    ) -> None:
        """`pieces[i]` (1-D) belongs to the parameter `names[i]`. `away`: where the state is; None: beside them."""
        self._away = away
        self._parameters = [Parameter(piece) for piece in pieces]
        if not {"foreach", "fused"} & spec.options.keys() and "foreach" in optimizer_options(spec.name):
            # What torch decides on the host anyway, which takes it a fifth of a small piece's step. `fused` would be
            # faster, but rounds otherwise at a piece's end, so that sums would depend on how a layer is cut.
            spec = replace(spec, options={**spec.options, "foreach": False})
        self._optimizer = build_optimizer(spec, zip(names, self._parameters, strict=True))
        self._step = _bare_step(self._optimizer)
        self._keep_all()

    def update(self, gradients: Sequence[Tensor | None], hyper: Hyper) -> None:
        """One step; pieces without gradient are left alone, decay included."""
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        apply_hyper(self._optimizer, hyper)
        try:
            self._step()
        except RuntimeError as error:
            raise _refused(self._optimizer, error) from error
        for parameter in self._parameters:
            parameter.grad = None
        self._keep_all()

    def state(self) -> dict[str, Tensor]:
        """Views of what the optimizer goes on from, by the piece's position and slot."""
        return state_of(self._optimizer, self._by_position)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()` of the same pieces."""
        load_state(
            self._optimizer,
            self._by_position,
            state,
            lambda position: self._keep(self._parameters[int(position)]),
        )

    def _keep_all(self) -> None:
        for parameter in self._parameters:
            self._keep(parameter)

    def _keep(self, parameter: Tensor) -> None:
        if self._away is not None and parameter in self._optimizer.state:
            self._away.keep(parameter, self._optimizer.state[parameter])

    @property
    def _by_position(self) -> dict[str, Tensor]:
        return {str(position): parameter for position, parameter in enumerate(self._parameters)}


def as_they_are(spec: OptimizerSpec) -> Hyper:
    """The values of a step in which no schedule changes any."""
    return [{} for _ in range(len(spec.groups) + 1)]


class HyperSchedule:
    """The hyper-parameters of every step, from the job's optimizer and schedule."""

    def __init__(self, optimizer: OptimizerSpec, schedule: ScheduleSpec, total_steps: int) -> None:
        """Raises UserError for options that the classes refuse."""
        self._of = optimizer, schedule, total_steps
        self._spec = schedule
        self._begin()

    def _begin(self) -> None:
        optimizer, schedule, total_steps = self._of
        groups = {
            index: [torch.zeros(1, 1, requires_grad=True)] for index in range(len(optimizer.groups) + 1)
        }
        self._optimizer = _optimizer(optimizer, groups)
        self._scheduler = _scheduler(self._optimizer, optimizer, schedule, total_steps)
        self._step = 0
        self._values = {0: self._read()}

    def at(self, step: int) -> Hyper:
        """The values of `step`, 0 or later, whichever were asked for before: where workers drift, a server updates with
        an early step of one worker after a late step of another. A step from before the last thousands is counted up to
        anew. Raises UserError where the schedule has none."""
        if self._scheduler is None:
            return self._values[0]
        step = max(step, 0)  # before the first step a forward pass has nothing to take
        if step not in self._values and step < self._step:
            self._begin()
        while self._step < step:
            with warnings.catch_warnings():
                # Of a schedule that ends before the job does, and of an optimizer that never steps: this one does not.
                warnings.simplefilter("ignore", UserWarning)
                try:
                    self._scheduler.step()
                except Exception as error:
                    raise _no_rate(self._spec, f"{error} in step {self._step + 1}") from error
            self._step += 1
            self._values[self._step] = self._read()
            self._values.pop(self._step - _REMEMBERED, None)
        return self._values[step]

    def _read(self) -> Hyper:
        return [
            {key: group[key] for key in _SCHEDULED if key in group} for group in self._optimizer.param_groups
        ]


def at_rate(hyper: Hyper, factor: float) -> Hyper:
    """The same with every learning rate times `factor`."""
    return hyper if factor == 1.0 else [{**group, "lr": group["lr"] * factor} for group in hyper]


def with_rate(hyper: Callable[[int], Hyper], factor: Callable[[int], float]) -> Callable[[int], Hyper]:
    """`hyper` with the learning rates of each step times `factor(step)`."""

    def at(step: int) -> Hyper:
        return at_rate(hyper(step), factor(step))

    return at


def _scheduler(
    optimizer: torch.optim.Optimizer, spec: OptimizerSpec, schedule: ScheduleSpec, total_steps: int
) -> torch.optim.lr_scheduler.LRScheduler | None:
    if schedule.name == "constant" and not schedule.options:
        return None
    kind = getattr(torch.optim.lr_scheduler, SCHEDULES[schedule.name])
    lengths = {
        "cosine": "T_max",
        "one-cycle": "total_steps",
        "linear": "total_iters",
        "polynomial": "total_iters",
    }
    options = dict(schedule.options)
    if schedule.name in lengths and not {"epochs", "steps_per_epoch"} & options.keys():
        options.setdefault(lengths[schedule.name], total_steps)
    if schedule.name == "one-cycle":
        options.setdefault("max_lr", spec.learning_rate)
    try:
        scheduler: torch.optim.lr_scheduler.LRScheduler = kind(optimizer, **options)
    except Exception as error:
        raise _no_rate(schedule, str(error)) from error
    if isinstance(scheduler, torch.optim.lr_scheduler.OneCycleLR) and scheduler.total_steps < total_steps:
        raise UserError(
            "schedule.options",
            schedule.options,
            f"the cycle has {scheduler.total_steps} steps, and the job has {total_steps}",
            "Let the cycle be at least as long. Without total_steps, epochs and steps_per_epoch it is as long as the"
            " job",
        )
    return scheduler


def _no_rate(schedule: ScheduleSpec, why: str) -> UserError:
    """What torch's class says of the options, as they are set up or in some step."""
    return UserError(
        "schedule.options",
        schedule.options,
        f"{SCHEDULES[schedule.name]} refuses them: {why.rstrip('.')}",
        "See torch.optim.lr_scheduler",
    )
