"""Writes to parameters besides the update: which are seen, which of them count, and what ends the job."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.checksum import Turns
from engine.instrumentation.gate import past_gates
from engine.instrumentation.raw_memory import notice
from engine.instrumentation.writes import Seen, Writes

LATE = Turns.FIRST + 1
"""A step in which not everything is looked at."""


def step(writes: Writes, number: int, model: Callable[[], object]) -> Seen:
    """One step in which `model` runs, and the update changes every parameter afterwards."""
    names = list(writes.parameters)
    writes.begin_step(number, names if number == 0 else ())
    if number:
        with torch.no_grad():
            for parameter in writes.parameters.values():
                parameter.add_(1.0)
        writes.came(names)
    model()
    for name in names:
        writes.leaves([name])
    return writes.end_backward(())()


@pytest.fixture
def weight() -> Parameter:
    return Parameter(torch.arange(4.0))


def nothing() -> None:
    """A model that writes nothing."""


@past_gates
def written_unnoticed(parameter: Parameter) -> None:
    """As a C++ extension would."""
    parameter.data.mul_(2.0)


WRITES: dict[str, Callable[[Parameter], object]] = {
    "clamp": lambda w: w.clamp_(max=1.5),
    "detached": lambda w: w.detach().zero_(),
    "view": lambda w: w.view(2, 2).mul_(2.0),
    "item": lambda w: w.__setitem__(0, 7.0),
    "replaced": lambda w: setattr(w, "data", torch.ones(4)),
}


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("number", [0, 3, LATE])
def test_a_write_that_autograd_counts_is_seen_in_its_step_only(
    how: str, number: int, weight: Parameter
) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(number):
        step(writes, before, nothing)
        assert not writes.written
    step(writes, number, torch.no_grad()(lambda: WRITES[how](weight)))
    assert writes.written == {"w"}
    step(writes, number + 1, nothing)
    assert not writes.written


@pytest.mark.parametrize(("factor", "counts"), [(1.0, set()), (0.5, {"w"})])
@pytest.mark.parametrize("number", [3, LATE])
def test_what_an_evaluation_writes_counts_if_it_changes_something(
    weight: Parameter, number: int, factor: float, counts: set[str]
) -> None:
    """`max_norm` writes to every row that is looked up, and only some workers may have looked it up."""
    writes = Writes({"w": weight}, served=("w",), compared=True)
    step(writes, 0, nothing)
    with torch.no_grad():
        weight.add_(1.0)
    writes.came(["w"])
    writes.begin_evaluation()
    with torch.no_grad():
        weight.mul_(factor)
    writes.begin_step(number, ["w"])
    writes.leaves(["w"])
    assert writes.written == counts


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("number", [1, 3, LATE])
def test_what_an_evaluation_writes_is_seen_in_the_step_that_follows(
    how: str, number: int, weight: Parameter
) -> None:
    """All versions have come before it, so that the step begins with what it wrote."""
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(number):
        step(writes, before, nothing)
    with torch.no_grad():
        weight.add_(1.0)
        writes.came(["w"])
        WRITES[how](weight)
    writes.begin_step(number, ["w"])
    writes.leaves(["w"])
    writes.end_backward(())()
    assert writes.written == {"w"}


def test_to_write_what_was_there_is_not_to_write(weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    step(writes, 0, torch.no_grad()(lambda: weight.clamp_(min=-100.0)))
    assert not writes.written


def test_an_update_is_no_write(weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=[], compared=True)
    for number in range(LATE):
        assert not step(writes, number, nothing).wrote


UNCOUNTED: dict[str, Callable[[Tensor], object]] = {
    "data": lambda w: w.data.mul_(2.0),
    "data of a view": lambda w: w[1:].data.mul_(2.0),
    "NumPy": lambda w: np.multiply(w.detach(), 2.0, out=w.detach().numpy()),
    "array": lambda w: np.asarray(w.detach()).fill(7.0),
    "storage": lambda w: w.untyped_storage().fill_(1),
    "DLPack": lambda w: torch.from_dlpack(w.detach()).mul_(2.0),
    "pointer": lambda w: (ctypes.c_float * 4).from_address(w.data_ptr()).__setitem__(0, 7.0),
}


@pytest.mark.parametrize("how", UNCOUNTED)
@pytest.mark.parametrize("number", [0, 3, LATE])
def test_a_single_uncounted_write_that_a_server_overwrites_ends_the_job(
    how: str, number: int, weight: Parameter
) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(number):
        step(writes, before, nothing)
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        step(writes, number, lambda: UNCOUNTED[how](weight))


@pytest.mark.parametrize(
    "reorder", [lambda row: row.copy_(row.roll(1)), lambda row: row.numpy().sort(), lambda row: row.neg_()]
)
def test_so_does_one_that_changes_the_order_within_a_row_of_a_large_parameter(
    reorder: Callable[[Tensor], object],
) -> None:
    chance = torch.Generator().manual_seed(3)
    row = torch.randn(100, dtype=torch.float64, generator=chance)
    large = Parameter(torch.cat([row, -row]).repeat(400).view(400, 200))
    writes = Writes({"w": large}, served=["w"], compared=False)
    for before in range(LATE):
        step(writes, before, nothing)
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        step(writes, LATE, lambda: reorder(large.data[3]))


@pytest.mark.parametrize("how", UNCOUNTED)
def test_so_does_one_between_two_steps(how: str, weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(LATE):
        step(writes, before, nothing)
    writes.came(["w"])
    UNCOUNTED[how](weight)
    writes.begin_step(LATE, ["w"])
    writes.leaves(["w"])
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        writes.end_backward(())()


@pytest.mark.parametrize("how", UNCOUNTED)
def test_so_does_one_in_backward_after_the_gradient_has_left(how: str, weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(LATE):
        step(writes, before, nothing)
    writes.came(["w"])
    writes.begin_step(LATE, ["w"])
    writes.leaves(["w"])
    UNCOUNTED[how](weight)
    with pytest.raises(TrainingError, match="after its gradient had left"):
        writes.end_backward(["w"])


KEPT: dict[str, Callable[[Tensor], Callable[[], object]]] = {
    "array": lambda w: partial(w.detach().numpy().fill, 7.0),
    "storage": lambda w: partial(w.untyped_storage().fill_, 1),
    "pointer": lambda w: partial((ctypes.c_float * 4).from_address(w.data_ptr()).__setitem__, 0, 7.0),
}
LEAST = LATE + 5
"""A step in which nothing is looked at by turns."""


def kept_over_steps(how: str, taken: int, weight: Parameter) -> tuple[Writes, Callable[[], object]]:
    """What leads to the memory was taken in that step; -1: when it was built."""
    notice()
    found: list[Callable[[], object]] = []

    def take() -> None:
        found.append(KEPT[how](weight))

    if taken < 0:
        take()
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for number in range(LEAST):
        step(writes, number, take if number == taken else nothing)
    return writes, found[0]


@pytest.mark.parametrize("how", KEPT)
@pytest.mark.parametrize("taken", [-1, 0, LATE])
def test_a_single_write_through_what_was_kept_ends_the_job(how: str, taken: int, weight: Parameter) -> None:
    """Nobody is told of it in its step."""
    writes, write = kept_over_steps(how, taken, weight)
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        step(writes, LEAST, write)


@pytest.mark.parametrize("how", KEPT)
def test_so_does_one_in_an_evaluation(how: str, weight: Parameter) -> None:
    writes, write = kept_over_steps(how, LATE, weight)
    with torch.no_grad():
        weight.add_(1.0)
    writes.came(["w"])
    writes.begin_evaluation()
    write()
    writes.begin_step(LEAST, ["w"])
    writes.leaves(["w"])
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        writes.end_backward(())()


@pytest.mark.parametrize("how", KEPT)
def test_so_does_one_in_backward_that_nobody_was_told_of(how: str, weight: Parameter) -> None:
    writes, write = kept_over_steps(how, LATE, weight)
    writes.came(["w"])
    writes.begin_step(LEAST, ["w"])
    writes.leaves(["w"])
    write()
    with pytest.raises(TrainingError, match="after its gradient had left"):
        writes.end_backward(())


@pytest.mark.parametrize("look", [lambda w: w.data.sum(), lambda w: w.detach().numpy().sum()])
def test_to_look_at_memory_is_not_to_write(look: Callable[[Tensor], object], weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for number in range(LATE + 2):
        step(writes, number, lambda: look(weight))
    assert not writes.written


def test_the_memory_is_known_where_it_has_been_replaced(weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    for before in range(LATE):
        step(writes, before, nothing)
    step(writes, LATE, lambda: setattr(weight, "data", torch.ones(4)))
    with pytest.raises(TrainingError, match="w was written to in a way that autograd does not see"):
        step(writes, LATE + 1, lambda: torch.Tensor.zero_(weight[:2].data))


def test_another_memory_at_the_same_address_is_seen() -> None:
    """As one that was freed is had again by what is put into `.data` next."""
    kept = np.arange(4.0)
    weight = Parameter(torch.from_numpy(kept))
    writes = Writes({"w": weight}, served=[], compared=True)

    def replaced() -> None:
        kept[:] = 7.0
        weight.data = torch.from_numpy(kept)

    assert list(step(writes, 0, replaced).wrote) == ["w"]


def test_one_that_goes_on_is_found_within_a_period() -> None:
    parameters = {name: Parameter(torch.arange(60_000.0)) for name in "abc"}
    writes = Writes(parameters, served=list(parameters), compared=False)
    for number in range(LATE):
        step(writes, number, nothing)
    with pytest.raises(TrainingError, match="c was written to"):  # noqa: PT012 - in one of these steps
        for number in range(LATE, LATE + Turns.PERIOD):
            step(writes, number, lambda: written_unnoticed(parameters["c"]))


def test_where_workers_update_what_was_written_is_told(weight: Parameter) -> None:
    """And other values have another checksum."""
    told = []
    for factor in (2.0, 2.0, 3.0):
        with torch.no_grad():
            weight.copy_(torch.arange(4.0))
        writes = Writes({"w": weight}, served=[], compared=True)
        told.append(step(writes, 0, torch.no_grad()(lambda factor=factor: weight.mul_(factor))))
    assert told[0] == told[1]
    assert told[0].wrote != told[2].wrote
    assert told[0].looked_at != told[2].looked_at


def test_frozen_parameters_are_looked_at_where_workers_compare() -> None:
    frozen = Parameter(torch.arange(4.0), requires_grad=False)
    writes = Writes({"w": frozen}, served=[], compared=True)
    writes.begin_step(0, ())
    first = writes.end_backward(())()
    with torch.no_grad():
        frozen.zero_()
    writes.begin_step(1, ())
    assert first.looked_at.keys() == {"w"}
    assert writes.end_backward(())() != first


def test_a_write_after_the_gradient_has_left_ends_the_job(weight: Parameter) -> None:
    writes = Writes({"w": weight}, served=["w"], compared=False)
    writes.begin_step(0, ["w"])
    writes.leaves(["w"])
    with torch.no_grad():
        weight.zero_()
    with pytest.raises(TrainingError, match="after its gradient had left"):
        writes.end_backward(["w"])
