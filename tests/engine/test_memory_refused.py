"""What recompute, or through-time, cannot have ends the job with the layer's name, the rule and the remedy, whenever it
begins."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.errors import TrainingError
from tests.memory import install, trained
from tests.odd_models import WIDTH, Model, Odd
from tests.pieces_of_time import through_time

REMEDY = "Keep the activations of this layer, or swap them"


def counting() -> Iterator[int]:
    count = 0
    while True:
        count += 1
        yield count


def forever() -> Iterator[float]:
    for value in itertools.repeat(0.5):
        yield value + 0.25
        yield value


GLOBAL = counting()
CALLS = itertools.count()


class Masked(torch.autograd.Function):
    """What it saves for backward does not show in what it answers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(torch.tensor(list(os.urandom(x.numel()))).view_as(x).float())
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (mask,) = ctx.saved_tensors
        return gradient * mask


class Takes(Odd):
    """From the pass `since` on it takes the next one of something."""

    def __init__(self, what: str, folder: Path, since: int) -> None:
        super().__init__()
        path = folder / "count"
        path.write_text("0" * 99)
        self.what, self.since, self.path, self.calls = what, since, path, 0
        self.generator = counting()
        self.forever = {"one": [forever()]}
        self.iterator = iter([float(n) for n in range(99)])
        self.cycle = itertools.cycle([0.5, 0.25])
        self.zip = zip(range(99), range(99), strict=True)
        self.file = path.open("r+b", buffering=0)
        self.log = (folder / "log").open("w")
        self.scale = 1.0

    def forward(self, x: Tensor, *given: Any) -> Any:
        self.calls += 1
        hidden = self.linear(x) * self.scale
        if self.calls > self.since:
            hidden = getattr(self, self.what)(hidden)
        return torch.tanh(hidden)

    def a_generator(self, hidden: Tensor) -> Tensor:
        return hidden * next(self.generator)

    def a_nested_generator(self, hidden: Tensor) -> Tensor:
        return hidden * next(self.forever["one"][0])

    def a_global_generator(self, hidden: Tensor) -> Tensor:
        return hidden * next(GLOBAL)

    def a_global_count(self, hidden: Tensor) -> Tensor:
        next(CALLS)  # which does not show in what it computes
        return hidden

    def a_list_iterator(self, hidden: Tensor) -> Tensor:
        return hidden * next(self.iterator)

    def a_cycle(self, hidden: Tensor) -> Tensor:
        return hidden * next(self.cycle)

    def a_zip(self, hidden: Tensor) -> Tensor:
        return hidden * next(self.zip)[0]

    def an_open_file(self, hidden: Tensor) -> Tensor:
        return hidden * len(self.file.read(1))

    def a_log(self, hidden: Tensor) -> Tensor:
        self.log.write("a line")
        return hidden

    def a_file_that_it_opens(self, hidden: Tensor) -> Tensor:
        count = int(self.path.read_text()) + 1
        self.path.write_text(str(count))
        return hidden * count

    def another_way(self, hidden: Tensor) -> Tensor:
        count = int(self.path.read_text()) + 1
        self.path.write_text(str(count))
        return hidden.sin() if count % 2 else hidden

    def a_failure(self, hidden: Tensor) -> Tensor:
        self.path.unlink()
        self.path.with_name("other").write_text("")
        return hidden

    def a_parameter(self, hidden: Tensor) -> Tensor:
        with torch.no_grad():
            self.linear.weight.mul_(0.99)
        return hidden

    def a_parameter_through_data(self, hidden: Tensor) -> Tensor:
        self.linear.weight.data.mul_(0.99)
        return self.linear(hidden)

    def a_transform(self, hidden: Tensor) -> Tensor:
        return hidden + torch.func.grad(lambda x: self.linear(x).sin().sum())(hidden)


SAYS = {
    "a_generator": r"takes from Takes\.generator in its forward pass",
    "a_nested_generator": r"takes from Takes\.forever\['one'\]\[0\]",
    "a_global_generator": "takes from GLOBAL",
    "a_global_count": "takes from CALLS",
    "a_list_iterator": r"takes from Takes\.iterator",
    "a_cycle": r"takes from Takes\.cycle",
    "a_zip": r"takes from Takes\.zip",
    "an_open_file": r"takes from Takes\.file",
    "a_log": r"takes from Takes\.log",
    "a_file_that_it_opens": "computed something else when it was computed again",
    "another_way": "saved other tensors for backward when it was computed again",
    "a_failure": r"failed when it was computed again in backward \(FileNotFoundError",
    "a_parameter": r"its forward pass changes Takes\.linear\.weight, which a second pass has changed again",
    "a_parameter_through_data": r"changes Takes\.linear\.weight|computed something else",
    "a_transform": r"uses a transform of torch\.func in its forward pass",
}


def test_what_shows_in_gradients_only_is_refused_in_the_first_passes(tmp_path: Path) -> None:
    class Block(Odd):
        def forward(self, x: Tensor, *given: Any) -> Any:
            return Masked.apply(self.linear(x))

    memory = install(model := nn.ModuleDict({"block": Block()}), tmp_path, "recompute")
    with pytest.raises(TrainingError, match=rf"^block\.linear computed something else.*{REMEDY}"):
        trained(model, numbers, memory, loss=lambda m, x: m["block"](x).sum(), steps=1)
    memory.close()


def test_a_block_that_goes_backward_later_than_in_its_first_passes_is_refused(tmp_path: Path) -> None:
    class Block(Odd):
        calls = 0

        def forward(self, x: Tensor, *given: Any) -> Any:
            self.calls += 1
            energy = torch.tanh(self.linear(x)).sum()
            more = torch.autograd.grad(energy, x, create_graph=True)[0] if self.calls > 3 else 0
            return energy + x + more

    memory = install(model := nn.ModuleDict({"block": Block()}), tmp_path, "recompute")
    with pytest.raises(TrainingError, match=rf"^block\.linear goes backward in its forward pass.*{REMEDY}"):
        trained(model, numbers, memory, loss=lambda m, x: m["block"](x.requires_grad_()).sum())
    memory.close()


@pytest.mark.parametrize("since", [0, 4])
@pytest.mark.parametrize("what", SAYS)
def test_what_cannot_be_put_back_is_refused(what: str, since: int, tmp_path: Path) -> None:
    model = nn.ModuleDict({"head": nn.Sequential(Takes(what, tmp_path, since))})
    memory = install(model, tmp_path, "recompute")
    with pytest.raises(TrainingError, match=rf"^head\.0\.linear .*{SAYS[what]}.*{REMEDY}"):
        trained(model, numbers, memory, loss=lambda m, x: m["head"](x * 1.5).sum(), steps=6)
    memory.close()
    model["head"][0].file.close()
    model["head"][0].log.close()


def numbers() -> Tensor:
    return torch.randn(2, WIDTH)


class Given(Odd):
    def forward(self, x: Tensor, given: Any) -> Any:
        return torch.tanh(self.linear(x) * next(given))


class WithIterator(Model):
    def forward(self, x: Tensor) -> Any:
        for block in self.blocks:
            x = block(x, self.given)
        return x


@pytest.mark.parametrize("make", [counting, lambda: iter([1.0, 2.0, 3.0])])
def test_an_iterator_that_it_is_given_is_refused(make: Callable[[], Any], tmp_path: Path) -> None:
    model = WithIterator(Given)
    model.given = make()
    memory = install(model, tmp_path, "recompute")
    with pytest.raises(TrainingError, match=rf"^blocks\.0\.linear takes from its argument .*{REMEDY}"):
        trained(model, numbers, memory)
    memory.close()


LATER: dict[str, tuple[Callable[[nn.Module, Tensor], Any], str]] = {
    "its input": (
        lambda model, x: model["block"](hidden := x * 1).sum() + hidden.add_(1).sum(),
        "its input was written to after its forward",
    ),
    "a large buffer": (
        lambda model, x: model["block"](x).sum() + model["block"].large.add_(1).sum(),
        r"Wide\.large was written to after its forward",
    ),
    "a parameter": (
        lambda model, x: (model["block"](x).sum(), model["block"].weight.data.add_(1))[0],
        "computed something else",
    ),
}


class Wide(nn.Linear):
    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH)
        self.register_buffer("large", torch.zeros(2**17))

    def forward(self, x: Tensor) -> Tensor:
        return (super().forward(x) + self.large[:WIDTH]).sin()


@pytest.mark.parametrize("what", LATER)
def test_what_others_write_to_after_its_forward_is_refused(what: str, tmp_path: Path) -> None:
    loss, says = LATER[what]
    model = nn.ModuleDict({"block": Wide()})
    memory = install(model, tmp_path, "recompute")
    with pytest.raises(TrainingError, match=rf"^block .*{says}.*{REMEDY}"):
        trained(model, numbers, memory, loss=loss)
    memory.close()


@pytest.mark.parametrize("activations", ["keep", "recompute"])
def test_what_it_computed_with_and_wrote_to_is_found_out_as_by_plain_pytorch(
    activations: str, tmp_path: Path
) -> None:
    class Writes(Odd):
        def forward(self, x: Tensor, *given: Any) -> Any:
            hidden = self.linear(x).exp()
            hidden.mul_(2)
            return hidden

    model = nn.ModuleDict({"block": Writes()})
    memory = install(model, tmp_path, activations)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        trained(model, numbers, memory, loss=lambda m, x: m["block"](x).sum())
    memory.close()


def test_a_hook_on_a_gradient_that_comes_after_forward_would_be_called_for_each_piece_of_time() -> None:
    """In the very pass in which it comes: it may be gone before the next one."""
    layer = nn.GRU(WIDTH, WIDTH)
    with through_time(layer, slots=2) as passes:
        passes.forward = True
        out = layer(torch.randn(3, 2, WIDTH))[0].sum()
        layer.weight_hh_l0.register_hook(lambda gradient: gradient / 2)
        with pytest.raises(
            TrainingError, match="hook on its gradient, which through-time would call for each piece"
        ):
            out.backward()
