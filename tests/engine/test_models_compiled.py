"""Compiled modules: their names, what they read, when that is waited for, and what the plan says of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.instrumentation.compiled import is_compiled, is_replayed, outside_regions, regions, unwrapped
from engine.instrumentation.entries import Entries, Parameters
from engine.models.describe import describe
from engine.preview import notes, rows
from engine.strategies import build_plan
from tests.jobs import job


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 4))


def compiled(module: nn.Module) -> nn.Module:
    found: nn.Module = torch.compile(module, backend="eager")  # type: ignore[assignment]
    return found


def test_names_are_those_of_the_model_that_is_not_compiled() -> None:
    model = net()
    names = list(model.state_dict())
    model[1] = compiled(model[1])
    found = unwrapped(compiled(model))
    assert found is model
    assert list(found.state_dict()) == names
    assert list(regions(found)) == [""]
    assert is_compiled(found[1])  # type: ignore[index]
    assert found._orig_mod is found, "for code that unwraps the model by itself"


def test_a_wrapper_stays_where_its_module_is_also_called_without_it() -> None:
    model = nn.ModuleDict({"plain": nn.Linear(4, 4)})
    model["fast"] = compiled(model["plain"])
    assert unwrapped(model)["fast"] is not model["plain"]  # type: ignore[index]
    assert list(regions(model)) == ["fast"]
    assert not is_compiled(model["plain"])


def test_what_is_compiled_computes_the_same_after_unwrapping() -> None:
    model, x = net(), torch.randn(3, 4)
    model[1].forward = torch.compile(model[1].forward, backend="eager")  # type: ignore[method-assign]
    expected = model(x)
    assert torch.equal(unwrapped(compiled(model))(x), expected)


class Exported(nn.Module):
    """Has no forward where it is scripted."""

    @torch.jit.export
    def other(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_scripted_and_traced_modules_are_not_compiled() -> None:
    traced = torch.fx.symbolic_trace(nn.Linear(4, 4))
    assert regions(nn.ModuleList([torch.jit.script(net()), torch.jit.script(Exported()), traced])) == {}


def test_what_is_compiled_is_told_from_what_is_not() -> None:
    model = net()
    model[1].compile(backend="eager")
    assert [path for path, _ in outside_regions(model)] == ["", "0", "2"]
    model[2].forward = torch.compile(model[2].forward, backend="eager")  # type: ignore[method-assign]
    assert [path for path, _ in outside_regions(model)] == ["", "0"]


@pytest.fixture
def told() -> Iterator[tuple[nn.Sequential, list[Parameters | None]]]:
    """A model of which a part is compiled, and what is told of entries."""
    model, found = net(), list[Parameters | None]()
    model[1] = unwrapped(compiled(model[1]))
    entries = Entries(model, found.append)
    assert entries.watch()
    assert not entries.watch(), "it has begun"
    yield model, found
    entries.close()


def test_who_enters_a_compiled_module_reads_its_parameters(
    told: tuple[nn.Sequential, list[Parameters | None]],
) -> None:
    model, found = told
    model(torch.randn(3, 4))
    model(torch.randn(3, 4))
    assert found == [frozenset(map(id, model[1].parameters()))] * 2


def test_who_enters_a_compiled_forward_reads_its_modules_parameters() -> None:
    model, found = net(), list[Parameters | None]()
    model[1].forward = torch.compile(model[1].forward, backend="eager")  # type: ignore[method-assign]
    entries = Entries(model, found.append)
    entries.watch()
    model(torch.randn(3, 4))
    entries.close()
    model(torch.randn(3, 4))
    assert set().union(*(each or () for each in found)) == set(map(id, model[1].parameters()))


def test_a_compiled_function_may_read_anything_but_in_threads_that_do_not_train(
    told: tuple[nn.Sequential, list[Parameters | None]],
) -> None:
    model, found = told

    @torch.compile(backend="eager")
    def function(x: Tensor) -> Tensor:
        found: Tensor = model[0](x)
        return found

    function(torch.randn(3, 4))
    assert found == [None]
    thread = threading.Thread(target=function, args=(torch.randn(3, 4),))
    thread.start()
    thread.join()
    assert found == [None]


def test_what_is_disabled_is_not_entered(told: tuple[nn.Sequential, list[Parameters | None]]) -> None:
    model, found = told
    torch.compiler.disable(model[2])(torch.randn(3, 4))
    assert found == []


@pytest.mark.parametrize(
    ("options", "replayed"),
    [
        ({}, False),
        ({"mode": "reduce-overhead"}, True),
        ({"backend": "cudagraphs"}, True),
        ({"backend": "eager"}, False),
    ],
)
def test_cuda_graphs_are_told_from_other_code(options: dict[str, Any], replayed: bool) -> None:
    assert is_replayed(torch.compile(torch.sin, **options)) is replayed


class Looking(nn.Module):
    """Its second layer's memory is also that of a view."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.third = nn.Linear(4, 4)
        self.view = self.second.weight.detach()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.third(self.second(self.first(x)))
        return found


def test_the_plan_says_which_layers_are_waited_for_before_they_are_read() -> None:
    model = Looking()
    model.third.compile(backend="eager")
    description = describe(model, torch.randn(2, 4), torch.tensor([0, 1]), "looking")
    spec = job(strategy={"name": "p3"}, cluster={"workers": 2})
    plan = build_plan(spec, description)
    assert [row.waits for row in rows(plan, description, spec)] == [
        "",
        "before forward, because another tensor has its memory",
        "when the compiled module around it is entered",
    ]
    assert notes(plan, description, spec) == [
        *plan.reasons,
        "second: waited for before forward, because another tensor has its memory",
        "third: waited for when the compiled module around it is entered",
    ]
    alone = job(cluster={"workers": 1})
    assert notes(build_plan(alone, description), description, alone) == [], "nothing is on its way"


def test_the_plan_says_what_a_compiled_function_means_for_all_layers() -> None:
    model = net()
    function = torch.compile(lambda x: x + 1, backend="eager")
    model.append(type("Plus", (nn.Module,), {"forward": lambda self, x: function(x)})())
    description = describe(model, torch.randn(2, 4), torch.tensor([0, 1]), "net")
    assert {layer.waits for layer in description.layers} == {
        "when a compiled function is entered, which may read any parameter"
    }
