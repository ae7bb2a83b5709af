"""Which modules a memory mechanism stands around, and what it says of those that it cannot have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.axes.memory import ACTIVATIONS
from engine.errors import UserError
from engine.memory.blocks import Asked, Finder
from engine.models.cut import cut
from engine.plan.mechanism_options import options_of
from engine.plan.plan import Plan
from engine.preview import rows, text
from engine.strategies import build_plan
from tests.memory import Noting, install, layers_of, trained
from tests.plans import job, made_up


def blocks(
    part: nn.Module, asked: dict[str, str], whole: nn.Module | None = None, **options: Any
) -> list[list[str]]:
    """The layers of each block."""
    choices = {
        name: Asked(value, options_of(ACTIVATIONS[value], options, "")) for name, value in asked.items()
    }
    finder = Finder(part, layers_of(whole or part), choices, lambda name: ACTIVATIONS[name].load())
    return [list(found.block.layers) for found in finder.find()]


def linears(count: int) -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(4, 4), nn.ReLU())))


def all_of(model: nn.Module, activations: str) -> dict[str, str]:
    return {layer.name: activations for layer in layers_of(model).layers}


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) * self.scale + self.right(x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Pair()
        self.rest = nn.ModuleList([Pair(), linears(4)])

    def forward(self, x: Tensor) -> Tensor:
        return self.rest[1](self.rest[0](self.first(x)))


def test_a_row_is_divided_by_the_square_root_of_its_layers() -> None:
    found = blocks(linears(9), all_of(linears(9), "recompute"))
    assert found == [["0", "2", "4"], ["6", "8", "10"], ["12", "14", "16"]]
    assert blocks(linears(5), all_of(linears(5), "recompute"), neighbours=4) == [["0", "2", "4", "6"], ["8"]]
    assert blocks(linears(9), all_of(linears(9), "swap")) == [list(all_of(linears(9), "swap"))]


def test_a_block_is_the_largest_module_whose_layers_ask_for_the_same() -> None:
    net = Net()
    assert blocks(net, all_of(net, "swap")) == [list(all_of(net, "swap"))]
    first = ["first", "first.left", "first.right"]
    second = ["rest.0", "rest.0.left", "rest.0.right"]
    row = [["rest.1.0", "rest.1.2"], ["rest.1.4", "rest.1.6"]]
    assert blocks(net, all_of(net, "recompute")) == [first, second, *row]
    mixed = all_of(net, "recompute") | dict.fromkeys(first, "swap") | {"rest.1.2": "swap"}
    assert blocks(net, mixed) == [first, second, ["rest.1.0"], ["rest.1.2"], ["rest.1.4"], ["rest.1.6"]]


def test_a_part_of_a_cut_model_is_one_block_or_has_its_layers_alone() -> None:
    model = nn.Sequential(linears(2), linears(2), nn.Linear(4, 2))
    parts = cut(model, "1.2")
    assert blocks(parts.front, {"0.0": "recompute", "0.2": "recompute", "1.0": "recompute"}, model) == [
        ["0.0", "0.2", "1.0"]
    ]
    assert blocks(parts.back, {"1.2": "recompute"}, model) == [["1.2"]]


class Encoder(nn.Module):
    """Words through a recurrent layer of its own, behind an embedding that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.words.requires_grad_(False)
        self.states = nn.LSTM(4, 4)

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.states(self.words(words))[0]
        return found


def test_a_mechanism_of_single_modules_has_them_wherever_they_are(tmp_path: Path) -> None:
    """In a module of their own, in rows, and as parts of a cut model."""
    model = nn.Sequential(Encoder(), nn.Sequential(nn.LSTM(4, 4)))
    names = ["0.states", "1.0"]
    assert blocks(model, dict.fromkeys(names, "through-time")) == [[name] for name in names]
    assert blocks(model, dict.fromkeys(names, "swap")) == [names]
    alone = Encoder()
    noting = Noting()
    memory = install(alone, tmp_path, {"states": "through-time"}, noting, slots=1)
    words = torch.zeros(7, 2, dtype=torch.int64)
    with memory.training(words):
        out = alone(words)
    with memory.backward():
        out.sum().backward()
    assert noting.recomputed
    memory.close()


def test_a_layer_that_no_block_would_have_is_refused_by_name() -> None:
    net = Net()
    with pytest.raises(
        UserError, match=r"layers\.first\.activations = 'recompute': .* Keep its activations, or give"
    ):
        blocks(net, {"first": "recompute"})


def test_compiled_code_is_refused_by_the_layers_name() -> None:
    net = linears(2)
    net[2].compile(backend="eager")
    with pytest.raises(UserError, match=r"layers\.2\.activations = 'swap': .*it is in compiled code \(2\)"):
        blocks(net, {"0": "recompute", "2": "swap"})


def test_a_module_that_is_never_called_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attention = nn.MultiheadAttention(4, 1)
    memory = install(attention, tmp_path, {"out_proj": "recompute"})
    trained(attention, lambda: torch.randn(2, 1, 4), memory, loss=lambda m, x: m(x, x, x)[0].sum(), steps=2)
    assert capsys.readouterr().out.count("warning: out_proj was not called by itself") == 1
    memory.close()


def test_each_block_is_computed_again_once_a_step(tmp_path: Path) -> None:
    noting, model = Noting(), linears(9)
    memory = install(model, tmp_path, "recompute", noting)
    trained(model, lambda: torch.randn(2, 4), memory, steps=3)
    assert noting.recomputed == [6, 3, 0] * 3
    memory.close()


@pytest.mark.parametrize("activations", [row.name for row in ACTIVATIONS if "as-is" not in row.traits])
def test_a_rehearsal_has_no_activations(activations: str) -> None:
    overrides = [{"activations": activations}]
    spec = job("p3", 2, {}, overrides=overrides, fidelity="rehearse", rehearsal={"device": "p100"})
    with pytest.raises(UserError, match=r"activations = .*a rehearsal computes nothing.*Train the job"):
        build_plan(spec, made_up((10,), (20,)))


OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"activations": "swap", "activation_options": {"least_bytes": -1}}, "least_bytes", "at least 0"),
    ({"activations": "recompute", "activation_options": {"neighbours": 0}}, "neighbours", "at least 1"),
    ({"activations": "recompute", "activation_options": {"neighbors": 2}}, "neighbors", "mean 'neighbours'"),
    ({"activation_options": {"least_bytes": 5}}, "least_bytes", "keep has no options"),
]


@pytest.mark.parametrize(("override", "name", "message"), OPTIONS)
def test_options_that_a_mechanism_does_not_have_are_refused(
    override: dict[str, Any], name: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build_plan(job("p3", 2, {}, overrides=[override]), made_up((10,), (20,)))
    assert caught.value.field == f"overrides.0.activation_options.{name}"


def test_options_stay_until_another_mechanism_is_chosen() -> None:
    overrides: list[dict[str, Any]] = [
        {"activations": "swap", "activation_options": {"least_bytes": 7}},
        {"layers": "l0", "activations": "swap"},
        {"layers": "l1", "activations": "recompute"},
    ]
    found = build_plan(job("p3", 2, {}, overrides=overrides), made_up((10,), (20,), (30,)))
    assert isinstance(found, Plan)
    assert [(layer.activations, layer.activation_options) for layer in found.layers] == [
        ("swap", {"least_bytes": 7, "ahead": 2}),
        ("recompute", {"neighbours": None}),
        ("swap", {"least_bytes": 7, "ahead": 2}),
    ]


def test_the_plan_says_what_happens_to_activations() -> None:
    model = made_up((10,), (20,))
    first, second = (layer.name for layer in model.layers)
    kept = job("p3", 2, {})
    options = {"activations": "swap", "activation_options": {"least_bytes": 5}}
    moved = job("p3", 2, {}, overrides=[{"layers": second, **options}])
    assert "activations" not in text(build_plan(kept, model), model, kept)
    plan = build_plan(moved, model)
    assert {row.layer: row.activations for row in rows(plan, model, moved)} == {
        first: "",
        second: "swap, least_bytes 5",
    }
    assert "activations" in text(plan, model, moved)
