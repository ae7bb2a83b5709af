"""The gate: every way of reading a closed parameter is told, and leaves the parameter as it would be without."""

from __future__ import annotations

import copy
import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter, functional
from torch.optim.optimizer import _foreach_supported_types

from engine.errors import TrainingError
from engine.instrumentation import unasked
from engine.instrumentation.gate import Gate, past_gates

# In this module, the names themselves would disable every gate of this process
# (`engine/instrumentation/own_dispatch.py`).
_unasked: Any = getattr(torch._C, "DisableTorchFunctionSubclass")  # noqa: B009


class Watched:
    """A layer whose parameters are closed, and a list of what was read."""

    def __init__(self, layer: nn.Module, opens: bool = True) -> None:
        self.layer = layer
        self.read: list[str] = []
        self.opens = opens
        self.gate = Gate(self._on_read)
        self.names = {id(p): name for name, p in layer.named_parameters()}
        for parameter in layer.parameters():
            self.gate.close(parameter)

    def _on_read(self, parameter: Parameter, function: Any) -> bool:
        self.read.append(self.names[id(parameter)])
        if self.opens:
            self.gate.open(parameter)
        return self.opens


def _disguised(tensor: Tensor) -> bool:
    """Whether it has another class for the time being."""
    return hasattr(tensor, "_trainyard_own")


@torch.jit.script
def _scripted(weight: Tensor) -> Tensor:
    return weight * 2


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


READS: dict[str, Callable[[nn.Linear], Any]] = {
    "call": lambda layer: layer(torch.zeros(1, 3)),
    "data": lambda layer: layer.weight.data,
    "detach": lambda layer: layer.weight.detach(),
    "numpy": lambda layer: np.asarray(layer.weight.detach()),
    "gradient": lambda layer: layer.weight.grad,
    "item": lambda layer: layer.weight[0, 0].item(),
    "comparison": lambda layer: bool((layer.weight > 5).any()),
    "transposed": lambda layer: layer.weight.T,
    "pointer": lambda layer: layer.weight.data_ptr(),
    "storage": lambda layer: layer.weight.untyped_storage(),
    "in a list": lambda layer: torch.stack([layer.weight, layer.weight]),
    "by keyword": lambda layer: functional.linear(torch.zeros(1, 3), weight=layer.weight),
    "right operand": lambda layer: torch.zeros(3) + layer.weight,
    "vector": lambda layer: nn.utils.parameters_to_vector([layer.weight]),
    "operator": lambda layer: torch.ops.aten.mm(layer.weight, torch.zeros(3, 3)),
    "foreach": lambda layer: torch._foreach_add([layer.weight], 1),
    "custom function": lambda layer: _Double.apply(layer.weight),
    "state": lambda layer: layer.state_dict(),
    "saved": lambda layer: torch.save(layer.state_dict(), io.BytesIO()),
    "pickled": lambda layer: pickle.dumps(layer.weight),
    "copy": lambda layer: copy.copy(layer.weight),
    "deep copy": lambda layer: copy.deepcopy(layer.weight),
    "deep copy of the layer": copy.deepcopy,
    "printed": lambda layer: repr(layer.weight),
    "functional": lambda layer: torch.func.functional_call(
        layer, dict(layer.named_parameters()), torch.zeros(1, 3)
    ),
    "grad transform": lambda layer: torch.func.grad(lambda w: w.sum())(layer.weight),
    "vmap": lambda layer: torch.vmap(lambda w: w * 2)(layer.weight),
    "jvp": lambda layer: torch.func.jvp(lambda w: w * 2, (layer.weight,), (torch.ones(4, 3),)),
    "autograd": lambda layer: torch.autograd.grad(layer.weight.sum(), layer.weight),
    "written": lambda layer: torch.no_grad()(layer.weight.clamp_)(0, 1),
    "frozen": lambda layer: layer.weight.requires_grad_(False),
    "constructor": lambda layer: torch.tensor(layer.weight),
    "constructor of a class": lambda layer: Tensor(layer.weight),
    "constructor of a tensor": lambda layer: torch.zeros(1).new_tensor(layer.weight),
    "of another class": lambda layer: layer.weight.as_subclass(Tensor),
    "wrapped": lambda layer: Tensor._make_subclass(Tensor, layer.weight),
    "parameter": lambda layer: Parameter(layer.weight),
    "set": lambda layer: torch.no_grad()(torch.zeros(1).set_)(layer.weight),
    "scripted function": lambda layer: _scripted(layer.weight),
    "scripted module": lambda layer: torch.jit.script(layer).forward(torch.zeros(1, 3)),
    "version": lambda layer: layer.weight._version,
}


@pytest.mark.parametrize("how", READS)
def test_every_way_of_reading_is_told(how: str) -> None:
    watched = Watched(nn.Linear(3, 4))
    READS[how](watched.layer)
    assert "weight" in watched.read
    assert not _disguised(watched.layer.weight)


@pytest.mark.parametrize("how", READS)
def test_what_stays_closed_is_read_as_it_is(how: str) -> None:
    plain, watched = nn.Linear(3, 4), Watched(nn.Linear(3, 4), opens=False)
    with torch.no_grad(), _unasked():
        watched.layer.load_state_dict(plain.state_dict())
    watched.read.clear()
    found, expected = READS[how](watched.layer), READS[how](plain)
    assert "weight" in watched.read
    assert watched.gate.is_closed(watched.layer.weight)
    if isinstance(expected, Tensor):
        assert type(found) == type(expected)  # noqa: E721, by identity every gate of this process would be disabled
        assert not _disguised(found) or found is watched.layer.weight
        with _unasked():
            assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "look",
    [
        lambda w: w.shape, lambda w: w.dtype, lambda w: w.device, lambda w: w.requires_grad, lambda w: w.is_leaf,
        lambda w: w.ndim, lambda w: w.size(0), lambda w: w.numel(), len, hash,
        lambda w: w.is_contiguous(), lambda w: w.is_floating_point(), lambda w: isinstance(w, Parameter),
        torch.is_tensor, lambda w: w.register_hook(lambda g: g).remove(),
    ],
)  # fmt: skip
def test_what_says_nothing_of_the_value_does_not_wait(look: Callable[[Tensor], Any]) -> None:
    watched = Watched(nn.Linear(3, 4))
    look(watched.layer.weight)
    assert not watched.read
    assert watched.gate.is_closed(watched.layer.weight)


def test_recurrent_layers_pass_their_weights_in_a_list() -> None:
    watched = Watched(nn.LSTM(3, 4, 2))
    watched.layer(torch.zeros(5, 1, 3))
    assert set(watched.read) == set(watched.names.values())


def test_a_class_that_decides_itself_what_functions_do_is_never_closed() -> None:
    """Beside an open parameter of such a class, PyTorch would not ask a closed one."""

    class Mine(Tensor):
        pass

    layer = nn.Linear(3, 4)
    layer.weight = Parameter(torch.ones(4, 3).as_subclass(Mine))
    watched = Watched(layer)
    assert not watched.gate.can_close(layer.weight)
    assert not watched.gate.is_closed(layer.weight)
    assert watched.gate.is_closed(layer.bias)


def test_what_the_gate_raises_reaches_who_read() -> None:
    def refuse(parameter: Parameter, function: Any) -> bool:
        raise ValueError("not now")

    layer = nn.Linear(3, 4)
    gate = Gate(refuse)
    gate.close(layer.weight)
    with pytest.raises(ValueError, match="not now"):
        layer(torch.zeros(1, 3))
    gate.open(layer.weight)  # a transform of a later test would ask it, as long as anybody holds the gate


def test_the_runtime_passes() -> None:
    watched = Watched(nn.Linear(3, 4))
    assert past_gates(watched.layer.weight.detach)().shape == (4, 3)
    past_gates(lambda: setattr(watched.layer.weight, "grad", torch.ones(4, 3)))()
    assert not watched.read
    assert type(past_gates(watched.layer.weight.detach)()) is Tensor


def test_gradients_pass_a_closed_parameter() -> None:
    layer = nn.Linear(3, 4)
    total = layer(torch.ones(2, 3)).sum()
    watched = Watched(layer)
    seen: list[Tensor] = []
    layer.weight.register_post_accumulate_grad_hook(seen.append)
    total.backward()
    assert seen[0] is layer.weight
    assert not watched.read
    watched.gate.open(layer.weight)
    assert layer.weight.grad is not None


@pytest.mark.parametrize("opens", [True, False])
def test_compiled_code_reads_before_it_is_entered(opens: bool) -> None:
    """What may be read as it is has its own class until the gate is lowered."""
    watched = Watched(nn.Linear(3, 2), opens)
    weight, bias = watched.layer.weight, watched.layer.bias
    watched.gate.before_compiled({id(weight)})
    assert watched.read == ["weight"]
    assert not _disguised(weight)
    assert watched.gate.is_closed(weight) is not opens
    assert _disguised(bias)
    watched.gate.lower()
    weight.sum()
    assert watched.read == ["weight"] * (1 if opens else 2)


def test_compiled_code_of_which_nothing_is_known_may_read_everything() -> None:
    watched = Watched(nn.Linear(3, 2))
    watched.gate.before_compiled(None)
    assert watched.read == ["weight", "bias"]
    assert not any(_disguised(p) for p in watched.layer.parameters())


def test_a_closed_parameter_inside_of_compiled_code_is_told_nevertheless() -> None:
    watched, x = Watched(nn.Linear(3, 2)), torch.ones(1, 3)
    kept = [watched.layer]
    exact = x @ torch.tanh(watched.layer.weight.detach()).T
    watched.gate.leave_to_python(watched.layer.parameters())
    function = torch.compile(lambda x: x @ torch.tanh(kept[0].weight).T, backend="eager")
    for _ in range(3):
        watched.read.clear()
        watched.gate.close(watched.layer.weight)
        assert torch.equal(function(x), exact)
        assert watched.read[0] == "weight"


def test_functions_that_are_made_to_ask_are_what_they_were_for_all_else() -> None:
    unasked.ask()
    for function in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
        assert pickle.loads(pickle.dumps(function)) is function
    with torch.device("meta"):
        assert torch.tensor([1.0]).is_meta
        assert torch.as_tensor([1.0]).is_meta


def test_they_are_found_by_the_code_that_is_compiled() -> None:
    unasked.ask()

    def written(x: Tensor, y: Tensor) -> Tensor:
        x.data = y
        return x.clone().set_(x.new_tensor([3.0]))

    function = torch.compile(written, backend="eager", fullgraph=True)
    assert function(torch.ones(2), torch.zeros(2)).tolist() == [3.0]


def test_who_reads_it_as_it_is_leaves_open_what_another_thread_opens_meanwhile() -> None:
    weight = Parameter(torch.ones(2))
    gate = Gate(lambda parameter, function: False)
    gate.close(weight)

    def reads(value: Tensor) -> Tensor:
        gate.open(weight)  # as another thread would
        return value * 2

    assert gate.call(reads, (weight,), {}).tolist() == [2.0, 2.0]
    assert not _disguised(weight)
    assert not gate.is_closed(weight)


def test_torch_takes_a_closed_parameter_for_one_that_it_knows() -> None:
    """It chooses the faster way of an optimizer by the class; only on CUDA does it have one."""
    weight = Parameter(torch.ones(2))
    Gate(lambda parameter, function: True).close(weight)
    assert _disguised(weight)
    assert type(weight) == Parameter  # noqa: E721
    assert {Parameter: "known"}[type(weight)] == "known"
    assert type(weight) != Tensor  # noqa: E721
    assert type(weight) in _foreach_supported_types
    assert str not in _foreach_supported_types


def test_its_class_knows_whose_instances_others_are() -> None:
    watched, other = Watched(nn.Linear(3, 4)), nn.Linear(3, 4)
    kind = type(watched.layer.weight)
    assert isinstance(other.weight, kind)
    assert isinstance(watched.layer.bias, kind)
    assert not isinstance(torch.zeros(1), kind)
    assert issubclass(Parameter, kind)
    assert issubclass(kind, Parameter)
    assert torch.zeros(1).as_subclass(kind).sum() == 0
    assert not watched.read


def test_a_function_of_the_users_own_reads_what_it_saves() -> None:
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:
            context.save_for_backward(weight)
            return x.clone()

    watched = Watched(nn.Linear(3, 4))
    Saves.apply(torch.ones(2), watched.layer.weight)
    assert watched.read == ["weight"]


def test_a_process_waits_before_it_forks_and_the_forked_one_waits_for_nobody() -> None:
    watched = Watched(nn.Linear(3, 4), opens=False)
    child = os.fork()
    if child == 0:  # no assertion is heard of here
        watched.layer(torch.zeros(1, 3))
        os._exit(int(len(watched.read) != 2 or _disguised(watched.layer.weight)))
    assert os.waitpid(child, 0)[1] == 0
    assert watched.read == ["weight", "bias"]
    assert watched.gate.is_closed(watched.layer.weight)


def test_a_process_that_forks_in_backward_goes_on() -> None:
    """What its reader refuses is no error of who forks."""

    def refuse(parameter: Parameter, function: Any) -> bool:
        raise TrainingError("not now")

    layer = nn.Linear(3, 4)
    gate = Gate(refuse)
    gate.close(layer.weight)
    child = os.fork()
    if child == 0:
        os._exit(int(_disguised(layer.weight)))
    assert os.waitpid(child, 0)[1] == 0
    gate.open(layer.weight)
