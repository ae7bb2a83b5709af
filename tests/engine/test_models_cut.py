"""A model cut in front of a layer: both parts together are the model; what cannot be cut says why."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.inputs.task import classification
from engine.models.cannot_cut import CannotCutError
from engine.models.cut import cut, find_cuts
from engine.models.registry import model
from engine.plan.placement_rules import possible_cuts
from tests.cuts import INPUTS, Shaped, offered, whole
from tests.plans import described

SMALL = ("mlp", "cnn", "bn-cnn", "tied", "frozen", "mixed", "attention", "resnet-digits")


def names(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_parameters()}


@pytest.mark.parametrize("name", SMALL)
def test_both_parts_together_are_the_model(name: str) -> None:
    net = model(name).build()
    samples = torch.randn(5, *model(name).input_shape)  # another number than the model was described with
    places = [layer for layer, refused in offered(net, samples[:2]).items() if not refused]
    assert places
    assert net.training
    for place in places:
        parts = cut(net, place)
        assert net.training
        assert parts.front.training
        assert parts.back.training
        assert names(parts.front) | names(parts.back) == names(net)
        assert not names(parts.front) & names(parts.back)
        own = dict(net.named_parameters())
        for part in (parts.front, parts.back):
            assert all(own[key] is parameter for key, parameter in part.named_parameters())
            part.eval()
        net.eval()
        assert torch.equal(whole(parts, samples), net(samples)), place
        net.train()
    (described_cut,) = (c for c in described(name).cuts if c.layer == places[-1])
    activation = cut(net, places[-1]).front(samples)
    assert described_cut.shape == tuple(activation.shape[1:])
    assert described_cut.activation_bytes == activation[0].nbytes


def test_modules_do_what_train_and_eval_say() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5))
    parts = cut(net, "3")
    inputs = torch.randn(6, 3)
    before = net[1].running_mean.clone()
    whole(parts, inputs)
    assert not torch.equal(net[1].running_mean, before), "batch statistics are taken in training"
    assert not torch.equal(parts.back(torch.ones(6, 4)), parts.back(torch.ones(6, 4))), "masks are drawn"
    parts.front.eval()
    parts.back.eval()
    before = net[1].running_mean.clone()
    assert torch.equal(whole(parts, inputs), whole(parts, inputs))
    assert torch.equal(net[1].running_mean, before)


def test_published_networks_can_be_cut() -> None:
    alexnet = described("alexnet")
    assert alexnet.uncut == ""
    assert [c.layer for c in alexnet.cuts] == [
        "conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8"
    ]  # fmt: skip
    assert alexnet.layers_from("fc6") == {"fc6", "fc7", "fc8"}
    fc6 = alexnet.cut("fc6")
    assert fc6 is not None
    assert fc6.activation_bytes == 9216 * 4
    assert "fc" in possible_cuts(described("resnet50"))
    assert "fc" in possible_cuts(described("resnet110"))
    assert possible_cuts(described("vgg19"))[-3:] != []


class Around(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.third(self.second(hidden) + hidden)


class Again(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.first(self.second(self.first(x))))


class Turned(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x).transpose(0, 1).reshape(4, -1).transpose(0, 1)).t().t())


class ByTime(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        series = self.first(x).unsqueeze(0).expand(3, -1, -1)
        return self.third(self.second(series).sum(0))


class Modal(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(functional.dropout(self.first(x), training=self.training)))


class Looking(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x if x.sum() > 0 else -x)))


class Unused(Shaped):
    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Tied(Shaped):
    """Two layers of one weight, of which the one that is registered last is used first."""

    def __init__(self) -> None:
        super().__init__()
        self.fourth = nn.Linear(4, 4)
        self.fourth.weight = self.second.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.fourth(self.first(x))))


class Renamed(Tied):
    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.fourth(self.first(x)) + self.second.bias)


class Normed(Shaped):
    """One module without parameters keeps the statistics of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.norm(self.second(self.norm(self.first(x)))))


class Counts(Shaped):
    """Another layer from the second call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        hidden = self.first(x)
        return self.third(self.second(hidden) if self.calls == 1 else hidden)


class Remembers(Shaped):
    def __init__(self) -> None:
        super().__init__()
        self.past: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.past.append(self.first(x))
        return self.third(self.second(self.past[-1]))


class Replaces(Shaped):
    """A buffer that forward replaces by another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        self.level = 0.9 * self.level + 0.1 * hidden.detach().mean(0)
        return self.third(self.second(hidden - self.level))


class Builds(Shaped):
    """Makes a tensor of nothing, which is a constant of the traced pass."""

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])))


class Still(Shaped):
    """A layer that is not trained, whatever its parameters say."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self.first(x)
        return self.third(self.second(hidden))


class Hooked(Shaped):
    """A part of its own whose gradient a hook changes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Around()
        self.inner.register_full_backward_hook(lambda module, into, out: (0.5 * into[0],))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.inner(x))


class Outer(Around):
    """The model itself has a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_hook(lambda module, args, output: 2 * output)


class Renames(Around):
    """Its state_dict has other names than its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_rename)


def _rename(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
    state["encoder"] = state.pop("first.weight")


class Extra(Around):
    def get_extra_state(self) -> int:
        return 1


class Lower(Shaped):
    """One product in another precision."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.first(x) @ torch.eye(4)
        return self.third(self.second(hidden.float()))


class Full(Shaped):
    """One product in full precision, whatever the others have."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            hidden = self.first(x.float())
        return self.third(self.second(hidden))


def test_a_block_without_autocast_is_noticed_where_there_is_autocast() -> None:
    def cuts(autocast: bool) -> list[str]:
        targets = torch.zeros(2, dtype=torch.int64)
        return [c.layer for c in find_cuts(Full(), INPUTS, targets, classification, autocast=autocast)]

    assert cuts(autocast=False) == ["first", "second", "third"]
    with pytest.raises(CannotCutError, match="computes in a mode of its own"):
        cuts(autocast=True)
    assert not torch.is_autocast_enabled("cpu")


def test_a_cut_that_is_no_cut_says_why() -> None:
    assert offered(Around(), INPUTS) == {
        "first": "no layer would be left in front of it",
        "second": "",
        "third": "",
    }
    again = offered(Again(), INPUTS)
    assert again["second"] == "first is used in front of it and from it on (tied, or used again)"
    assert again["third"] == ""
    normed = offered(Normed(), INPUTS)
    assert "norm is used in front of it and from it on" in normed["second"]
    assert normed["third"] == ""
    assert "does not begin with the samples' dimension" in offered(ByTime(), INPUTS)["second"]
    assert offered(Turned(), INPUTS)["second"] == ""


def test_a_tied_weight_keeps_its_name() -> None:
    """Plans and descriptions call it by the first name that the model has for it."""
    net = Tied()
    assert offered(net, INPUTS)["second"] == ""
    parts = cut(net, "second")
    assert names(parts.front) == {"first.weight", "first.bias"}
    assert names(parts.front) | names(parts.back) == names(net)


def test_several_values_cannot_cross() -> None:
    class Both(Shaped):
        def forward(self, x: Tensor) -> Tensor:
            return self.third(self.second(self.first(x)) + x)

    assert "2 values cross in front of it (x, first)" in offered(Both(), INPUTS)["second"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Modal, "other things in training than in evaluation"),
        (Looking, "torch.fx cannot trace its forward pass: TraceError"),
        (Unused, "does not use 'third'"),
        (Renamed, "uses 'second.weight' under another name only"),
        (Counts, "sets 'calls'"),
        (Remembers, "sets 'past'"),
        (Replaces, "level"),
        (Still, "computes in a mode of its own"),
        (Lower, "computes in a mode of its own"),
        (Outer, "the model itself has a hook on its forward pass"),
        (Renames, r"its state_dict\(\) has 'encoder' otherwise"),
        (Extra, r"its state_dict\(\) has '_extra_state' otherwise"),
        (Hooked, "'inner' has a hook on its backward pass"),
    ],
)
def test_a_model_that_cannot_be_traced_says_why(net: type[nn.Module], reason: str) -> None:
    made = net()
    with pytest.raises(CannotCutError, match=reason):
        offered(made, INPUTS)
    calls, past, level = (getattr(made, name, None) for name in ("calls", "past", "level"))
    assert calls in (0, None), "as it was before it was traced"
    assert past in ([], None)
    assert level is None or torch.equal(level, torch.zeros(4))


def test_a_constant_of_forward_belongs_to_its_part() -> None:
    net = Builds()
    assert offered(net, INPUTS)["second"] == ""
    assert torch.equal(whole(cut(net, "second"), INPUTS), net(INPUTS))
    assert not [name for name in vars(net) if "constant" in name]


class Counting(Shaped):
    """It counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.view(-1).add_(1)
        return self.third(self.second(self.first(x)) * self.calls)


class Freezing(Shaped):
    """It freezes a layer whenever it runs."""

    def forward(self, x: Tensor) -> Tensor:
        self.second.requires_grad_(False)
        return self.third(self.second(self.first(x)))


class Moding(Shaped):
    """It sets a module's mode whenever it runs."""

    def forward(self, x: Tensor) -> Tensor:
        self.second.eval()
        return self.third(self.second(self.first(x)))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Counting, "writes to the buffer 'calls'"),
        (Freezing, r"sets 'second.weight.requires_grad'"),
        (Moding, r"sets 'second.training'"),
    ],
)
def test_a_model_that_changes_itself_is_not_cut_and_stays_as_it_was(
    net: type[nn.Module], reason: str
) -> None:
    model = net()
    with pytest.raises(CannotCutError, match=reason):
        offered(model, INPUTS)
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(buffer.any() for buffer in model.buffers())
