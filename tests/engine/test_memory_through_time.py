"""A recurrent layer in pieces of time: gradients are bitwise those of the same pieces with everything kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils.rnn import pack_sequence
from torch.utils.checkpoint import checkpoint

from engine.axes.memory_options import ThroughTimeOptions
from engine.budget.sequence import Sequence
from engine.errors import TrainingError, UserError
from engine.liveness.measured import peak_bytes
from engine.memory.mechanism import Passes
from engine.strategies import build_plan
from tests.memory import Noting, install
from tests.pieces_of_time import assert_same, gradients, in_pieces, state_of, through_time, time_of
from tests.plans import job, made_up

LAYERS: dict[str, Callable[[], nn.RNNBase]] = {
    "lstm": lambda: nn.LSTM(6, 5, batch_first=True),
    "lstm of two": lambda: nn.LSTM(6, 5, num_layers=2),
    "projected": lambda: nn.LSTM(6, 5, proj_size=3, bias=False),
    "gru": lambda: nn.GRU(6, 5, batch_first=True),
    "rnn": lambda: nn.RNN(6, 5, num_layers=2, nonlinearity="relu"),
}
STEPS = 11
OPTIONS = [
    {"slots": 0},
    {"slots": 2},
    {"slots": 4, "piece_slots": 2},
    {"slots": 50, "piece_slots": 1},
    {"slots": 2, "piece_steps": 3},
    {"slots": 3, "piece_steps": 4, "piece_slots": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("uses", ["output", "state", "both"])
def test_gradients_are_bitwise_those_of_the_same_pieces(
    layer: str, options: dict[str, int], uses: str
) -> None:
    torch.manual_seed(0)
    made = LAYERS[layer]()
    inputs, start = torch.randn(STEPS, STEPS, 6), state_of(made, STEPS)
    expected = gradients(made, in_pieces(made, options.get("piece_steps", 1)), inputs, start, uses)
    with through_time(made, **options) as passes:
        assert_same(gradients(made, made, inputs, start, uses, passes), expected)


@pytest.mark.parametrize("layer", LAYERS)
def test_pieces_of_one_step_are_a_plain_loop(layer: str) -> None:
    """Of which autograd sums the parameters' gradients."""
    torch.manual_seed(1)
    made = LAYERS[layer]()
    inputs = torch.randn(STEPS, STEPS, 6)

    def loop(inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        found = []
        for piece in inputs.split(1, time_of(made)):
            out, state = made(piece, state)
            found.append(out)
        return torch.cat(found, time_of(made)), state

    expected = gradients(made, loop, inputs, None, "both")
    with through_time(made, slots=3) as passes:
        assert_same(gradients(made, made, inputs, None, "both", passes), expected)


def test_under_autocast_it_is_the_same() -> None:
    torch.manual_seed(2)
    made = LAYERS["lstm"]()
    inputs = torch.randn(3, STEPS, 6)
    with torch.autocast("cpu", torch.bfloat16):
        expected = gradients(made, in_pieces(made, 1), inputs, None, "both")
        with through_time(made, slots=2) as passes:
            assert_same(gradients(made, made, inputs, None, "both", passes), expected)


def test_only_what_wants_gradients_gets_them() -> None:
    torch.manual_seed(3)
    made = LAYERS["lstm"]()
    made.weight_hh_l0.requires_grad_(False)
    inputs = torch.randn(3, STEPS, 6)
    in_pieces(made, 1)(inputs)[0].sum().backward()
    expected = {name: parameter.grad for name, parameter in made.named_parameters()}
    made.zero_grad()
    with through_time(made, slots=2) as passes:
        passes.forward = True
        made(inputs)[0].sum().backward()
    assert made.weight_hh_l0.grad is None is inputs.grad
    assert_same([parameter.grad for parameter in made.parameters()], list(expected.values()))


def test_writing_to_the_input_after_forward_is_noticed() -> None:
    made = LAYERS["gru"]()
    inputs = torch.randn(3, STEPS, 6)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        out = made(inputs)[0].sum()
        inputs.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", ["weight_hh_l0", "weight_ih_l0", "bias_ih_l0"])
def test_writing_to_a_parameter_after_forward_is_noticed(name: str, trained: bool) -> None:
    """What runs again would have another, also where autograd saves none for backward, as of a bias."""
    made = LAYERS["gru"]()
    written = made.get_parameter(name).requires_grad_(trained)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        out = made(torch.randn(3, STEPS, 6))[0].sum()
        with torch.no_grad():
            written.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_a_second_derivative_is_refused() -> None:
    """As a penalty on gradients wants it."""
    made = LAYERS["lstm"]()
    inputs = torch.randn(3, STEPS, 6, requires_grad=True)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        out = made(inputs)[0].sum()
        with pytest.raises(TrainingError, match=r"encoder is differentiated twice.*Choose something else"):
            torch.autograd.grad(out, inputs, create_graph=True)


def test_lengths_that_differ_share_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the longest so far."""
    made: list[int] = []
    monkeypatch.setattr(
        "engine.memory.through_time.Sequence",
        lambda steps, *a, **k: made.append(steps) or Sequence(steps, *a, **k),
    )
    layer = LAYERS["gru"]()
    with through_time(layer, slots=2) as passes:
        for steps in (3, 2, 7, 5, 7, 1):
            inputs = torch.randn(2, steps, 6)
            expected = gradients(layer, in_pieces(layer, 1), inputs, None, "output")
            assert_same(gradients(layer, layer, inputs, None, "output", passes), expected)
    assert made == [3, 7]


def test_who_keeps_the_output_keeps_no_inputs() -> None:
    made = LAYERS["lstm"]()
    inputs, start = torch.randn(3, STEPS, 6), state_of(made, 3)
    held = [StorageWeakRef(each.untyped_storage()) for each in (inputs, *start)]
    with through_time(made, slots=2) as passes:
        passes.forward = True
        out = made(inputs, start)[0].sum()
        out.backward()
        del inputs, start
        assert out.grad_fn is not None
        assert all(each.expired() for each in held)


def test_no_third_set_of_gradients_is_held() -> None:
    """The sums so far, and a piece's own, each of which is dropped once it has been added."""
    made = nn.RNN(256, 256, num_layers=6)
    size = sum(parameter.nbytes for parameter in made.parameters())
    with through_time(made, slots=2) as passes:
        passes.forward = True
        out = made(torch.randn(4, 1, 256))[0].sum()
        passes.forward = False
        assert 2 * size < peak_bytes(out.backward) < 2.4 * size


def test_pieces_run_as_often_as_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps with two stored states take 25 runs (`engine/budget/sequence.py`), the first ten of which are forward:
    the rest is computed again."""
    runs = 0
    made, forward = LAYERS["lstm"](), nn.LSTM.forward

    def counted(*given: Any) -> Any:
        nonlocal runs
        runs += 1
        return forward(*given)

    monkeypatch.setattr(nn.LSTM, "forward", counted)
    noting = Noting()
    with through_time(made, noting, slots=2) as passes:
        passes.forward = True
        out, _ = made(torch.randn(3, 10, 6))
        passes.forward = False
        assert (runs, noting.recomputed) == (10, [])
        passes.backward = True
        out.sum().backward()
        assert runs == 25
        assert set(noting.recomputed) == {4}


def test_it_needs_a_part_of_the_memory() -> None:
    made = nn.LSTM(32, 32, batch_first=True)
    inputs = torch.randn(64, 40, 32)

    def trained(passes: Passes) -> None:
        gradients(made, made, inputs, None, "output", passes)

    with through_time(made, slots=200, piece_slots=1) as passes:
        kept = peak_bytes(lambda: trained(passes))
    with through_time(made, slots=4) as passes:
        assert peak_bytes(lambda: trained(passes)) < 0.5 * kept


def test_an_evaluation_runs_as_ever() -> None:
    made = LAYERS["gru"]()
    inputs = torch.randn(3, STEPS, 6)
    expected = made(inputs)[0]
    with through_time(made, slots=2) as passes:
        assert torch.equal(made(inputs)[0], expected)
        passes.forward = True
        with torch.no_grad():
            assert torch.equal(made(inputs)[0], expected)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.Linear(2, 2), "is no nn.LSTM, nn.GRU or nn.RNN. Ask it of such layers only"),
        (nn.LSTM(2, 2, bidirectional=True), "goes in both directions"),
        (nn.GRU(2, 2, num_layers=2, dropout=0.1), "drops out between its layers"),
    ],
)
def test_layers_that_cannot_be_cut_are_refused(layer: nn.Module, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught, through_time(layer, slots=1):
        pass
    assert caught.value.field == "layers.encoder.activations"


def test_a_plan_refuses_it_for_other_layers() -> None:
    overrides = [{"layers": "l1", "activations": "through-time"}]
    with pytest.raises(
        UserError,
        match=r": this layer is a Linear, and only LSTM, GRU, RNN .*Ask for it by `kind: LSTM` \(or GRU, RNN\)",
    ) as caught:
        build_plan(job("p3", 2, {}, overrides=overrides), made_up((10,), (20,)))
    assert caught.value.field == "layers.l1.activations"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"piece_steps": 0}, "piece_steps = 0: must be at least 1"),
        ({"slots": -1}, "slots = -1: must be at least 0"),
        ({"piece_slots": 0}, "piece_slots = 0: must be at least 1"),
    ],
)
def test_options_that_are_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ThroughTimeOptions(**options)


def test_layers_of_a_model_are_found(tmp_path: Path) -> None:
    """Those in one nn.ModuleList each by itself."""
    layers = nn.ModuleList(nn.LSTM(4, 4, batch_first=True) for _ in range(2))
    noting = Noting()
    memory = install(layers, tmp_path, "through-time", noting, slots=1)
    inputs = torch.randn(2, 9, 4)
    with memory.training(inputs):
        out = layers[1](layers[0](inputs)[0])[0]
    with memory.backward():
        out.sum().backward()
    assert set(noting.recomputed) == {0, 1}
    memory.close()


def test_what_cannot_be_done_ends_the_job_with_the_layers_name() -> None:
    made = LAYERS["lstm"]()
    with through_time(made, slots=1) as passes:
        passes.forward = True
        with pytest.raises(TrainingError, match="encoder is given a PackedSequence"):
            made(pack_sequence([torch.randn(3, 6)]))
        with pytest.raises(
            TrainingError, match=r"encoder has 20,001 pieces of time: .* take several steps as one"
        ):
            made(torch.randn(1, 20_001, 6))
        out = made(torch.randn(2, 3, 6))[0].sum()
        out.backward(retain_graph=True)
        with pytest.raises(TrainingError, match="encoder goes backward a second time"):
            out.backward()


def without_mean(module: nn.Module, given: Any, made: Any) -> Any:
    """Of all steps: of one piece it is another."""
    return made[0] - made[0].mean(1, keepdim=True), made[1]


HOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "forward": lambda layer: layer.register_forward_hook(without_mean),
    "before forward": lambda layer: layer.register_forward_pre_hook(lambda module, given: None),
    "spectral norm": lambda layer: nn.utils.spectral_norm(layer, "weight_hh_l0"),
    "backward": lambda layer: layer.register_full_backward_hook(lambda module, given, made: None),
    "before backward": lambda layer: layer.register_full_backward_pre_hook(lambda module, made: None),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_on_the_module_are_refused(hook: str) -> None:
    """Also those that come later; an evaluation has them."""
    made = LAYERS["lstm"]()
    inputs = torch.randn(3, STEPS, 6)
    with through_time(made, slots=2) as passes:
        handle = HOOKS[hook](made)
        made(inputs)
        passes.forward = True
        with pytest.raises(
            TrainingError, match=r"encoder has hooks, .* Put what they do into a module around"
        ):
            made(inputs)
        passes.forward = False
        if hook == "forward":
            handle.remove()
            passes.forward = True
            made(inputs)[0].sum().backward()


def test_a_hook_on_a_gradient_is_refused_and_one_on_what_is_accumulated_is_called_once() -> None:
    made = LAYERS["gru"]()
    inputs = torch.randn(3, STEPS, 6)
    told: list[nn.Parameter] = []
    made.weight_hh_l0.register_post_accumulate_grad_hook(told.append)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        made(inputs)[0].sum().backward()
        assert len(told) == 1
        made.weight_hh_l0.register_hook(lambda gradient: gradient * 2)
        with pytest.raises(
            TrainingError, match=r"encoder has a parameter .*register_post_accumulate_grad_hook"
        ):
            made(inputs)


def test_another_forward_is_refused() -> None:
    """Of all steps: of one piece it is another, as `without_mean` is."""
    made, inputs = LAYERS["lstm"](), torch.randn(3, STEPS, 6)
    forward = made.forward
    made.forward = lambda given, state=None: forward(given - given.mean(1, keepdim=True), state)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        with pytest.raises(TrainingError, match=r"encoder has a forward in place .* into a module around"):
            made(inputs)


@pytest.mark.parametrize("how", ["an attribute", "a parameter", "a call"])
def test_weights_that_are_made_of_something_else_are_refused(how: str) -> None:
    """What they are made of would get no gradient, and may be something else in backward."""
    made, inputs = LAYERS["lstm"](), torch.randn(3, STEPS, 6)
    halved, given = made.weight_hh_l0 / 2, {}
    with through_time(made, slots=2) as passes:
        if how == "a call":
            given["weight_hh_l0"] = halved
        else:
            del made.weight_hh_l0
            made.weight_hh_l0 = nn.Parameter(halved) if how == "a parameter" else halved
        passes.forward = True
        with pytest.raises(TrainingError, match="encoder runs with a weight_hh_l0 that is not its own"):
            torch.func.functional_call(made, given, (inputs,))


def test_a_checkpoint_around_the_layer_is_refused() -> None:
    """But not a reentrant one, which calls the layer once with gradients wanted: in backward."""
    made, inputs = LAYERS["lstm"](), torch.randn(3, STEPS, 6)
    with through_time(made, slots=2) as passes:
        passes.forward = True
        with pytest.raises(TrainingError, match="encoder runs within a checkpoint of the model's own"):
            checkpoint(made, inputs, use_reentrant=False)
        out, _ = checkpoint(made, inputs.requires_grad_(), use_reentrant=True)
        passes.forward = False
        out.sum().backward()
        assert made.weight_hh_l0.grad is not None


def test_weight_norm_is_one_of_the_layer() -> None:
    """It makes the weights before each forward, and is a hook."""
    torch.manual_seed(4)
    made = LAYERS["lstm"]()
    nn.utils.weight_norm(made, "weight_hh_l0")
    inputs = torch.randn(3, STEPS, 6)
    expected = gradients(made, in_pieces(made, 1), inputs, None, "both")
    with through_time(made, slots=3) as passes:
        assert_same(gradients(made, made, inputs, None, "both", passes), expected)
