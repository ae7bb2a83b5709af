"""Updates of pieces on servers equal updates of whole tensors, for every optimizer that claims to be element-wise."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from engine.errors import TrainingError, UserError
from engine.plan.optimizers import OPTIMIZERS, SCHEDULES, optimizer_options, schedule_options
from engine.plan.updates import OptimizerSpec, ParameterGroupSpec, ScheduleSpec, check_updates, state_bytes
from engine.state import updates
from engine.state.updates import HyperSchedule, PieceUpdater, Updater, build_optimizer, clip_gradients

ELEMENTWISE = [name for name in OPTIMIZERS if OptimizerSpec(name=name).elementwise]
CUTS = [7, 4, 13]
SCHEDULE_OPTIONS: dict[str, dict[str, Any]] = {
    "step": {"step_size": 2},
    "multi-step": {"milestones": [1, 3]},
    "exponential": {"gamma": 0.5},
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_pieces_are_updated_as_the_whole(name: str) -> None:
    """One piece has no gradient in the second step: it is left alone, as torch leaves a whole tensor alone."""
    spec = OptimizerSpec(name=name, learning_rate=0.01, options={"weight_decay": 0.1})
    torch.manual_seed(0)
    whole = torch.randn(sum(CUTS), dtype=torch.float64)
    parts = [piece.clone() for piece in whole.split(CUTS)]
    updater = PieceUpdater(spec, ["w"] * len(CUTS), parts)
    wholes = [nn.Parameter(piece.clone()) for piece in whole.split(CUTS)]
    plain = getattr(optim, OPTIMIZERS[name][0])(wholes, lr=0.01, weight_decay=0.1)
    schedule = HyperSchedule(spec, ScheduleSpec(), 4)
    for step in range(4):
        gradients = [torch.randn(count, dtype=torch.float64) for count in CUTS]
        given = [None if (step, i) == (1, 1) else g for i, g in enumerate(gradients)]
        for parameter, gradient in zip(wholes, given, strict=True):
            parameter.grad = gradient
        plain.step()
        updater.update(given, schedule.at(step))
    for part, parameter in zip(parts, wholes, strict=True):
        assert torch.equal(part, parameter.detach())

    together = nn.Parameter(whole.clone())
    one = build_optimizer(spec, [("w", together)])
    apart = [piece.clone() for piece in whole.split(CUTS)]
    updater = PieceUpdater(spec, ["w"] * len(CUTS), apart)
    for _ in range(3):
        together.grad = torch.randn(sum(CUTS), dtype=torch.float64)
        updater.update(list(together.grad.split(CUTS)), schedule.at(3))
        one.step()
    assert torch.equal(torch.cat(apart), together.detach())


def stepped(name: str, how: type, options: dict[str, Any]) -> list[torch.Tensor]:
    """Pieces after three steps, of a server's updater or of a worker's."""
    spec = OptimizerSpec(name=name, learning_rate=0.01, options={"weight_decay": 0.1, **options})
    torch.manual_seed(0)
    pieces = [torch.randn(count) for count in CUTS]
    given = [[torch.randn(count) for count in CUTS] for _ in range(3)]
    hyper = HyperSchedule(spec, ScheduleSpec(), 3).at(0)
    if how is PieceUpdater:
        server = PieceUpdater(spec, ["w"] * len(CUTS), pieces)
        for gradients in given:
            server.update(gradients, hyper)
        return pieces
    parameters = {f"{number}.w": nn.Parameter(piece) for number, piece in enumerate(pieces)}
    worker = Updater(spec, parameters)
    for gradients in given:
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        worker.update(hyper)
    return [parameter.detach() for parameter in parameters.values()]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_torch_does_not_choose_a_loop_for_each_piece(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at every tensor for that, and takes the same one on the host in any case."""
    asked: list[int] = []

    def choose(parameters: list[torch.Tensor], *_: object, **__: object) -> tuple[bool, bool]:
        asked.append(len(parameters))
        return False, False

    for module in ("adadelta", "adagrad", "adam", "adamax", "nadam", "radam", "rmsprop", "sgd"):
        monkeypatch.setattr(import_module(f"torch.optim.{module}"), "_default_to_fused_or_foreach", choose)
    stepped(name, Updater, {})
    assert asked == [len(CUTS)] * 3, "torch would"
    stepped(name, PieceUpdater, {})
    assert len(asked) == 3


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_pieces_come_out_as_where_torch_chooses_the_loop(name: str) -> None:
    for piece, other in zip(stepped(name, PieceUpdater, {}), stepped(name, Updater, {}), strict=True):
        assert torch.equal(piece, other)


def test_a_loop_that_the_job_asks_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    adam = import_module("torch.optim.adam")
    loop = adam._multi_tensor_adam

    def watched(*arguments: Any, **options: Any) -> None:
        taken.append(1)
        loop(*arguments, **options)

    monkeypatch.setattr(adam, "_multi_tensor_adam", watched)
    stepped("adam", PieceUpdater, {"foreach": True})
    assert len(taken) == 3


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_takes_every_schedule(optimizer: str, schedule: str) -> None:
    if schedule == "one-cycle" and optimizer not in (
        "sgd",
        "adam",
        "adamw",
        "adamax",
        "nadam",
        "radam",
        "muon",
    ):
        pytest.skip("one-cycle cycles a momentum, which this optimizer does not have")
    options = {"momentum": 0.9} if optimizer in ("sgd", "muon") else {}
    groups = (ParameterGroupSpec(match="*.bias", options={"lr": 0.5}),)
    spec = OptimizerSpec(name=optimizer, learning_rate=0.1, options=options, groups=groups)
    found = HyperSchedule(spec, ScheduleSpec(name=schedule, options=SCHEDULE_OPTIONS.get(schedule, {})), 6)
    rates = [[group["lr"] for group in found.at(step)] for step in range(6)]
    assert all(len(rate) == 2 for rate in rates)
    assert (schedule == "constant") == (rates[0] == rates[-1] and rates[1] == rates[0])


def test_a_schedule_answers_early_steps_after_late_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow worker's contribution is applied at the rate of its own step, however far another one is."""
    monkeypatch.setattr(updates, "_REMEMBERED", 4)
    schedule = ScheduleSpec(name="exponential", options={"gamma": 0.5})
    forwards = HyperSchedule(OptimizerSpec(learning_rate=1.0), schedule, 20)
    expected = {step: forwards.at(step) for step in range(20)}
    found = HyperSchedule(OptimizerSpec(learning_rate=1.0), schedule, 20)
    for step in (9, 7, 19, 0, 3, 18, 2, 19):
        assert found.at(step) == expected[step]
        assert found.at(step)[0]["lr"] == 0.5**step


def test_a_cycle_is_as_long_as_it_says() -> None:
    def rates(**options: Any) -> list[float]:
        schedule = ScheduleSpec(name="one-cycle", options={"max_lr": 0.2, **options})
        found = HyperSchedule(OptimizerSpec(options={"momentum": 0.9}), schedule, 10)
        return [found.at(step)[0]["lr"] for step in range(10)]

    assert rates(epochs=3, steps_per_epoch=10) == rates(total_steps=30)
    assert rates() == rates(total_steps=10)
    with pytest.raises(UserError, match="the cycle has 6 steps, and the job has 10"):
        rates(epochs=3, steps_per_epoch=2)


def test_a_schedule_that_fails_in_some_step_names_its_options() -> None:
    found = HyperSchedule(OptimizerSpec(), ScheduleSpec(name="step", options={"step_size": 0}), 10)
    with pytest.raises(UserError, match=r"schedule\.options.*StepLR refuses them: .* in step 1"):
        found.at(1)


def test_values_that_torch_refuses_name_the_class() -> None:
    with pytest.raises(UserError, match=r"RMSprop refuses them.*alpha"):
        HyperSchedule(OptimizerSpec(name="rmsprop", options={"alpha": -1.0}), ScheduleSpec(), 1)
    with pytest.raises(UserError, match=r"LinearLR refuses them.*factor"):
        HyperSchedule(OptimizerSpec(), ScheduleSpec(name="linear", options={"start_factor": 2.0}), 1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {"momentum": -0.9}),
        ("sgd", {"weight_decay": -1}),
        ("sgd", {"nesterov": True}),
        ("sgd", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        ("adam", {"betas": [0.9, 1.0]}),
        ("adamw", {"betas": [-0.1, 0.9]}),
        ("adamax", {"eps": -1e-8}),
        ("nadam", {"momentum_decay": -1}),
        ("rmsprop", {"alpha": -1.0}),
        ("adagrad", {"lr_decay": -1}),
        ("adagrad", {"initial_accumulator_value": -1}),
        ("adadelta", {"rho": 1.5}),
    ],
)
def test_values_that_torch_refuses_are_refused_before(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"[Ii]nvalid|requires"):
        getattr(optim, OPTIMIZERS[name][0])([nn.Parameter(torch.zeros(1))], lr=0.1, **options)
    with pytest.raises(UserError, match="Give"):
        check_updates(OptimizerSpec(name=name, options=options), ScheduleSpec())
    group = ParameterGroupSpec(match="*.bias", options=options)
    with pytest.raises(UserError, match=r"optimizer\.groups\.0\.options"):
        check_updates(OptimizerSpec(name=name, groups=(group,)), ScheduleSpec())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"momentum": "0.9"}, "'0.9': must be a number of at least 0"),
        ({"momentum": True}, "True: must be a number"),
        ({"momentum": float("nan")}, "nan: must be a number"),
        ({"momentum": 10**400}, "0: must be a number"),
        ({"momentum": 0.9, "nesterov": "yes"}, "'yes': is a switch"),
    ],
)
def test_values_of_another_type_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_updates(OptimizerSpec(options=options), ScheduleSpec())


def test_what_a_group_leaves_out_it_has_from_all() -> None:
    group = ParameterGroupSpec(match="*.bias", options={"nesterov": True, "lr": 0.01})
    check_updates(OptimizerSpec(options={"momentum": 0.9}, groups=(group,)), ScheduleSpec())


def test_a_group_without_momentum_need_not_take_nesterovs_back() -> None:
    group = ParameterGroupSpec(match="*.bias", options={"momentum": 0})
    options = {"momentum": 0.9, "nesterov": True}
    check_updates(OptimizerSpec(options=options, groups=(group,)), ScheduleSpec())
    bias = torch.nn.Parameter(torch.ones(2))
    optim.SGD([{"params": [bias], "momentum": 0}], lr=0.1, **options)
    wrong = ParameterGroupSpec(match="*.bias", options={"momentum": 0, "nesterov": True})
    with pytest.raises(UserError, match=r"optimizer\.groups\.0\.options\.nesterov"):
        check_updates(OptimizerSpec(options=options, groups=(wrong,)), ScheduleSpec())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_options_of_an_optimizer_are_those_of_torch(name: str) -> None:
    known = set(signature(getattr(optim, OPTIMIZERS[name][0])).parameters) - {"params", "lr"}
    assert set(optimizer_options(name)) == known


KEEPING: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in OPTIMIZERS),
    ("sgd", {"momentum": 0.9}),
    ("rmsprop", {"momentum": 0.9, "centered": True}),
    ("adamw", {"amsgrad": True}),
]


@pytest.mark.parametrize(("name", "options"), KEEPING)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_an_optimizer_keeps_is_counted(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    shapes = [(6, 4)] if name == "muon" else [(6, 4), (5, 3, 2), (7,), ()]
    for shape in shapes:
        parameter = nn.Parameter(torch.ones(shape, dtype=dtype))
        spec = OptimizerSpec(name=name, options=options)
        optimizer = build_optimizer(spec, [("weight", parameter)])
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        kept = [value.nbytes for value in optimizer.state[parameter].values() if isinstance(value, Tensor)]
        assert state_bytes(spec, "weight", shape, dtype.itemsize) == sum(kept)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_options_of_a_schedule_are_those_of_torch(name: str) -> None:
    parameters = signature(getattr(optim.lr_scheduler, SCHEDULES[name])).parameters
    known = set(parameters) - {"optimizer", "last_epoch"}
    assert set(schedule_options(name)) == known
    given_by_us = {"T_max", "total_iters", "total_steps", "max_lr"}
    needed = {key for key in known - given_by_us if parameters[key].default is Parameter.empty}
    for option in needed:
        with pytest.raises(UserError, match=f"needs {option}. Give schedule.options.{option}"):
            check_updates(OptimizerSpec(), ScheduleSpec(name=name))
    if not needed:
        check_updates(OptimizerSpec(), ScheduleSpec(name=name))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_some_parameters_at_a_time_come_to_what_all_at_once_come_to(name: str) -> None:
    """Bit for bit, state and groups included, in whatever portions they come."""
    groups = (ParameterGroupSpec(match="c*", options={"lr": 0.5}),)
    spec = OptimizerSpec(name=name, learning_rate=0.1, groups=groups)
    hyper = HyperSchedule(spec, ScheduleSpec(), 9)
    chance = torch.Generator().manual_seed(15)
    first = {each: torch.randn(3, 2, generator=chance) for each in ("a", "b", "c", "c2")}
    whole, parts = ({n: nn.Parameter(t.clone()) for n, t in first.items()} for _ in range(2))
    at_once, apart = Updater(spec, whole), Updater(spec, parts)
    for step, portions in enumerate((["a", "b"], ["c2"], ["c"]), 0):
        rest = [n for n in first if n not in portions]
        for n in first:
            gradient = torch.randn(3, 2, generator=chance)
            whole[n].grad, parts[n].grad = gradient.clone(), gradient.clone()
        at_once.update(hyper.at(step))
        apart.update(hyper.at(step), [parts[n] for n in portions])
        assert all(torch.equal(parts[n], whole[n]) == (n in portions) for n in first)
        apart.update(hyper.at(step), [parts[n] for n in rest])
        assert all(torch.equal(parts[n], whole[n]) for n in first)


def test_a_refused_portion_leaves_the_optimizer_whole() -> None:
    embedding, other = nn.Embedding(5, 2, sparse=True), nn.Parameter(torch.ones(2))
    embedding(torch.tensor([1])).sum().backward()
    other.grad = torch.ones(2)
    spec = OptimizerSpec(name="adamax", learning_rate=0.1)
    updater = Updater(spec, {"embedding": embedding.weight, "other": other})
    hyper = HyperSchedule(spec, ScheduleSpec(), 1).at(0)
    with pytest.raises(TrainingError, match="does not support sparse gradients"):
        updater.update(hyper, [embedding.weight])
    embedding.weight.grad = None
    updater.update(hyper)
    assert torch.equal(other, torch.full((2,), 0.9))


@pytest.mark.parametrize(
    "register", ["register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]
)
def test_hooks_of_all_optimizers_are_refused(register: str) -> None:
    """A step in parts would call them once for each part, or, as it was, not at all."""
    spec = OptimizerSpec(name="sgd", learning_rate=0.1)
    updater = Updater(spec, {"weight": nn.Parameter(torch.ones(2))})
    hyper = HyperSchedule(spec, ScheduleSpec(), 1).at(0)
    handle = getattr(import_module("torch.optim.optimizer"), register)(lambda *args: None)
    try:
        with pytest.raises(TrainingError, match=r"hook of all optimizers' steps.*Do in forward"):
            updater.update(hyper)
    finally:
        handle.remove()
    updater.update(hyper)


def test_a_sparse_gradient_is_refused_with_a_remedy_where_torch_refuses_it() -> None:
    embedding = nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 3])).sum().backward()
    named = dict(embedding.named_parameters())
    with pytest.raises(
        TrainingError, match=r"the gradient of weight is torch.sparse_coo.*leave training.clip_norm out"
    ):
        clip_gradients(named, 1.0)
    spec = OptimizerSpec(name="adamax", learning_rate=0.1)
    with pytest.raises(
        TrainingError, match=r"Adamax does not support sparse gradients.*sparse=False, or use plain sgd"
    ):
        Updater(spec, named).update(HyperSchedule(spec, ScheduleSpec(), 1).at(0))
    plain = OptimizerSpec(name="sgd", learning_rate=0.1)
    before = embedding.weight.detach().clone()
    Updater(plain, named).update(HyperSchedule(plain, ScheduleSpec(), 1).at(0))
    assert (before != embedding.weight).any(1).tolist() == [False, True, False, True, False]
