"""Who else holds a parameter's memory, and when what a server sends may overwrite it."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter, functional

from engine.instrumentation.raw_memory import listen, notice
from engine.memory.saving import address_of
from engine.plan.units import Segment, Unit
from engine.state.host_memory import HostMemory
from engine.tensor_bytes import as_bytes


def memory_of(*parameters: Parameter) -> HostMemory:
    return HostMemory({f"p{index}": parameter for index, parameter in enumerate(parameters)})


def unit_of(*segments: Segment) -> Unit:
    return Unit(index=0, layers=("layer",), segments=segments, dtype="float32", position=0, shard=None)


HOLDERS: dict[str, Callable[[Parameter], Any]] = {
    "detached": lambda p: p.detach(),
    "data": lambda p: p.data,
    "view": lambda p: p.view(-1),
    "slice": lambda p: p[1:],
    "transposed": lambda p: p.t(),
    "saved for backward": lambda p: torch.ones(4, 4, requires_grad=True) @ p.data,
}


@pytest.mark.parametrize("how", HOLDERS)
def test_another_holder_is_found_for_as_long_as_it_lives(how: str) -> None:
    parameter = Parameter(torch.ones(4, 4))
    memory = memory_of(parameter)
    assert not memory.is_shared("p0")
    holder = HOLDERS[how](parameter)
    assert memory.is_shared("p0")
    del holder
    assert not memory.is_shared("p0")


GIVEN_AWAY: dict[str, Callable[[Parameter], Any]] = {
    "array": lambda p: p.detach().numpy(),
    "array that NumPy asks for": lambda p: np.asarray(p.detach()),
    "pointer": lambda p: p.data_ptr(),
    "pointer of a slice": lambda p: p.data[1:].data_ptr(),
    "storage": lambda p: p.untyped_storage(),
    "typed storage": lambda p: p.storage(),
    "DLPack": lambda p: np.from_dlpack(p.detach()),
    "capsule": lambda p: torch.to_dlpack(p.detach()),
    "imported": lambda p: torch.from_dlpack(p.detach()),
    "pickled": pickle.dumps,
}


@pytest.mark.parametrize("how", GIVEN_AWAY)
def test_memory_that_was_given_away_counts_as_shared_for_as_long_as_it_lives(how: str) -> None:
    """Nobody counts pointers, and an array tells where it lies."""
    notice()
    parameter = Parameter(torch.ones(4, 4))
    memory = memory_of(parameter)
    assert not memory.is_shared("p0")
    GIVEN_AWAY[how](parameter)
    assert memory.is_shared("p0")
    parameter.data = torch.ones(4, 4)
    assert not memory.is_shared("p0")


NOT_KEPT: dict[str, Callable[[Parameter], Any]] = {
    "data": lambda p: p.data.sum(),
    "saved": lambda p: torch.save({"p": p}, io.BytesIO()),
    "copied": copy.deepcopy,
    "printed": repr,
    "vector": lambda p: nn.utils.parameters_to_vector([p]),
    "list": lambda p: p.tolist(),
    "swapped": address_of,
}


def test_who_listens_twice_is_told_once() -> None:
    class Counting:
        told = 0

        def given_away(self, memory: int) -> None:
            self.told += 1

    counting = Counting()
    listen(counting)
    listen(counting)
    assert torch.ones(1).data_ptr()
    assert counting.told == 1


@pytest.mark.parametrize("how", NOT_KEPT)
def test_what_is_not_kept_keeps_no_layer_waiting(how: str) -> None:
    """PyTorch's own code asks for storages, too."""
    notice()
    parameter = Parameter(torch.ones(4, 4))
    memory = memory_of(parameter)
    NOT_KEPT[how](parameter)
    assert not memory.is_shared("p0")


@pytest.mark.parametrize(
    "layer", [nn.Linear(4, 4), nn.LSTM(4, 4), nn.Embedding(4, 4), nn.MultiheadAttention(4, 2)]
)
def test_a_layers_own_backward_holds_nothing_when_its_gradient_is_there(layer: nn.Module) -> None:
    memory = HostMemory(dict(layer.named_parameters()))
    shared: list[bool] = []
    for name, parameter in layer.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: shared.append(memory.is_shared(name))
        )
    inputs = torch.zeros(2, 3, 4)
    found = {
        nn.Embedding: lambda: layer(torch.tensor([1, 2])),
        nn.MultiheadAttention: lambda: layer(inputs, inputs, inputs)[0],
        nn.LSTM: lambda: layer(inputs)[0],
        nn.Linear: lambda: layer(inputs),
    }[type(layer)]()
    found.sum().backward()
    assert shared
    assert not any(shared)


def test_a_use_of_the_data_that_backward_still_needs_is_found() -> None:
    weight = Parameter(torch.ones(4, 4))
    memory = memory_of(weight)
    shared: list[bool] = []
    weight.register_post_accumulate_grad_hook(lambda p: shared.append(memory.is_shared("p0")))
    inputs = torch.ones(2, 4, requires_grad=True)
    functional.linear(functional.linear(inputs, weight.data), weight).sum().backward()
    assert shared == [True]


def test_parameters_that_lie_together_and_the_runtimes_views_are_no_others() -> None:
    flat = torch.ones(8)
    first, second = Parameter(flat[:4]), Parameter(flat[4:])
    memory = memory_of(first, second)
    assert memory.is_shared("p0")
    del flat
    assert not memory.is_shared("p0")
    memory.landing.begin_backward(holds_all=False)
    assert memory.landing_places(unit_of(Segment("p0", 0, 4))) is not None
    assert not memory.is_shared("p0")
    assert not memory.is_shared("p1")
    kept = second.detach()
    assert memory.is_shared("p0"), "it may be a view of all that lies there"
    del kept
    moved = torch.zeros(4)
    first.data = moved.data  # by `moved` alone, every gate of this process would be disabled
    assert memory.is_shared("p0")
    del moved
    assert not memory.is_shared("p0")
    assert not memory.is_shared("p1")


def received(value: float) -> memoryview:
    return as_bytes(torch.full((4,), value))


def value(parameter: Tensor) -> float:
    return float(parameter.detach()[0])


def test_what_is_received_lands_at_once_where_nobody_looks() -> None:
    parameter = Parameter(torch.ones(4))
    memory, unit = memory_of(parameter), unit_of(Segment("p0", 0, 4))
    memory.landing.begin_backward(holds_all=False)
    before = parameter._version
    installed: list[float] = []
    memory.land(unit, received(2.0), lambda: installed.append(2))
    assert value(parameter) == 2.0
    assert installed == [2]
    assert parameter._version > before, "autograd is told"
    assert not memory.landing.hold("p0", [unit]), "forward's value is gone"


@pytest.mark.parametrize("all_of_them", [True, False])
def test_what_is_held_is_kept_beside_until_it_is_used(all_of_them: bool) -> None:
    parameter = Parameter(torch.zeros(4))
    memory, unit = memory_of(parameter), unit_of(Segment("p0", 0, 4))
    memory.landing.begin_backward(holds_all=all_of_them)
    assert memory.landing.hold("p0", [unit])
    assert memory.landing_places(unit) is None
    installed: list[float] = []
    for number in (1.0, 2.0):
        memory.land(unit, received(number), lambda number=number: installed.append(number))
    assert value(parameter) == 0.0
    assert installed == []
    memory.before_use([unit])
    assert value(parameter) == 2.0
    assert installed == [2], "the first is out of date"
    memory.landing.begin_backward(holds_all=False)
    memory.land(unit, received(3.0), lambda: installed.append(3))
    assert value(parameter) == 3.0
