"""Cutting a model in front of a layer, into a front and a back that keep the names of their parameters.

The model is traced with torch.fx: its own modules are looked into, PyTorch's (`torch.nn`) stay whole. So a part holds
the model's own modules and does what `train()` and `eval()` say, batches may have any size, and a part's state_dict
has the model's names. (torch.export, and with it the tracer of torch.distributed.pipelining, writes dropout and batch
normalization down for one of the two modes.) Every node of the traced pass that comes before the first use of the
layer belongs to the front, the rest to the back; one tensor crosses from one to the other.

What cannot be cut is said by `find_cuts`, with the reason: control flow that looks at values, at `self.training` or at
a random number, several values that cross, a layer used on both sides, a forward pass that keeps something in an
attribute or computes with a parameter that torch.fx does not see (`frozen_values.py`), a loss that looks at the inputs
or at more of the model than what it answers, code that keeps something outside of the model from pass to pass
(`kept.py`), a generator of random numbers of its own, a state_dict that is not the parameters and buffers under their
names. Control flow that depends on anything else, the time say, is frozen as it was when the model was traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_arg

from engine.errors import UserError
from engine.inputs.batch import Tensors
from engine.inputs.task import Task
from engine.models.cannot_cut import CannotCutError
from engine.models.kept import refuse_kept
from engine.models.tracing import (
    buffer_uses,
    crossing_values,
    first_uses,
    module_of,
    traced,
)
from engine.plan.description import CutDescription


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The two parts of a cut model; they share the model's own modules and parameters."""

    front: nn.Module
    """inputs (n, ...) -> the activation that crosses, (n, ...)."""
    back: nn.Module
    """That activation -> what the model returns."""


class _Elsewhere:
    """Stands for the inputs where they are not: whatever looks into it is told so."""

    def __getattr__(self, name: str) -> Any:
        raise _looks_at_inputs()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _looks_at_inputs()


ELSEWHERE: Any = _Elsewhere()
"""What a task gets for `inputs` where only the back of the model is."""


class Rest(nn.Module):
    """What a task calls in place of the model where only its back is: `model(inputs)` goes on from the activation."""

    def __init__(self, back: nn.Module) -> None:
        super().__init__()
        self._back = back
        self.activation: Tensor | None = None
        """What the front has sent."""

    @property
    def training(self) -> bool:
        """The mode of what is here: a loss may ask for it."""
        return self._back.training

    @training.setter
    def training(self, mode: bool) -> None:
        """`nn.Module` begins with a mode of its own; this has none."""

    def forward(self, inputs: Any) -> Any:
        """What the model would have returned. Raises UserError for a task that changes the inputs first."""
        if inputs is not ELSEWHERE:
            raise _looks_at_inputs()
        return self._back(self.activation)

    def __getattr__(self, name: str) -> Any:
        """Raises UserError for what the whole model may have."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            raise _looks_at_model(name) from None

    def named_parameters(self, *args: Any, **options: Any) -> Any:
        """Raises UserError: only some are here. So do the others that go through all of a model."""
        raise _looks_at_model("named_parameters")

    def named_buffers(self, *args: Any, **options: Any) -> Any:
        """See named_parameters."""
        raise _looks_at_model("named_buffers")

    def named_modules(self, *args: Any, **options: Any) -> Any:
        """See named_parameters."""
        raise _looks_at_model("named_modules")

    def named_children(self, *args: Any, **options: Any) -> Any:
        """See named_parameters."""
        raise _looks_at_model("named_children")

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """See named_parameters."""
        raise _looks_at_model("state_dict")


def cut(model: nn.Module, layer: str) -> Parts:
    """Cut `model` in front of `layer`, one of those that `find_cuts` offers."""
    with traced(model) as graph:
        nodes = list(graph.nodes)
        at = first_uses(model, nodes)[layer][0]
        (crossing,) = crossing_values(nodes, at)
        front, back = fx.Graph(), fx.Graph()
        places: dict[fx.Node, fx.Node] = {}
        for node in nodes[:at]:
            places[node] = front.node_copy(node, places.__getitem__)
        front.output(places[crossing])
        places = {crossing: back.placeholder("activation")}
        for node in nodes[at:-1]:
            places[node] = back.node_copy(node, places.__getitem__)
        back.output(map_arg(nodes[-1].args[0], places.__getitem__))
        parts = Parts(front=module_of(model, front, "Front"), back=module_of(model, back, "Back"))
    parts.front.training = parts.back.training = model.training  # while it was traced, it was in another mode
    return parts


def first_names(model: nn.Module) -> dict[str, str]:
    """Every name of the model's state_dict -> the first name of that tensor, under which the parts have it."""
    seen: dict[int, str] = {}
    return {name: seen.setdefault(id(held), name) for name, held in model.state_dict(keep_vars=True).items()}


def cut_in_a_row(model: nn.Module, layers: Sequence[str]) -> list[nn.Module]:
    """Cut `model` in front of each of `layers`, which come in forward order: the stages."""
    stages, rest = [], model
    for layer in layers:
        parts = cut(rest, layer)
        stages.append(parts.front)
        rest = parts.back
    return [*stages, rest]


def find_cuts(
    model: nn.Module, inputs: Tensors, targets: Tensors, task: Task, *, autocast: bool = False
) -> tuple[CutDescription, ...]:
    """Every layer of `model` in the order of its first use, and what crosses in front of it, per sample, or why the
    model cannot be cut there. `inputs` (n, ...) and `targets` (n, ...), n > 1: an example batch on the model's device.
    `autocast`: it will be trained under autocast.

    Raises CannotCutError where it can be cut nowhere.
    """
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        raise CannotCutError(
            "its inputs or targets are several tensors, and pieces of a pass have one of each"
        )
    with traced(model, autocast=autocast) as graph, torch.no_grad():
        nodes = list(graph.nodes)
        uses = first_uses(model, nodes)
        owners = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
        if missing := sorted(owners - uses.keys()):
            raise CannotCutError(
                f"its forward pass does not use {_layers(model, missing)}, which would belong to neither part"
            )
        whole = module_of(model, graph, "Whole")
        if renamed := sorted(
            {n for n, _ in model.named_parameters()} - {n for n, _ in whole.named_parameters()}
        ):
            raise CannotCutError(f"its forward pass uses {renamed[0]!r} under another name only (tied)")
        _check_state(model)
        refuse_kept(model, inputs, targets, task)
        _check_task(whole, inputs, targets, task)
        shapes = _Shapes.of(whole, inputs), _Shapes.of(whole, torch.cat([inputs, inputs[:1]]))
        kept = buffer_uses(model, nodes)
        first = Counter(at for at, _ in uses.values())
        found: list[CutDescription] = []
        for layer, (at, _) in sorted(uses.items(), key=lambda item: item[1][0]):
            crossing = crossing_values(nodes, at)
            refused = _refusal(uses, kept, at, crossing, shapes)
            before = next((c.layer for c in found if uses[c.layer][0] == at), None)
            if first[at] > 1 and before is not None:
                refused = f"it is computed together with {before or 'the root'}"
            if refused:
                found.append(CutDescription(layer=layer, refused=refused))
            else:
                shape, dtype = shapes[0][crossing[0].name]
                name = str(dtype).removeprefix("torch.")
                found.append(CutDescription(layer=layer, shape=tuple(shape[1:]), dtype=name))
        return tuple(found)


def _refusal(
    uses: dict[str, tuple[int, int]],
    kept: dict[str, tuple[int, int]],
    at: int,
    crossing: Sequence[fx.Node],
    shapes: tuple[dict[str, _Shape], dict[str, _Shape]],
) -> str:
    """Why the model cannot be cut in front of node `at`; empty where it can."""
    if not any(first < at for first, _ in uses.values()):
        return "no layer would be left in front of it"
    both = [name for name, (first, last) in [*uses.items(), *kept.items()] if first < at <= last]
    if both:
        return f"{both[0] or 'the root'} is used in front of it and from it on (tied, or used again)"
    if len(crossing) != 1:
        names = ", ".join(node.name for node in crossing[:4])
        return f"{len(crossing)} values cross in front of it ({names}), and one can travel"
    few, more = (found.get(crossing[0].name) for found in shapes)
    if few is None or more is None or not few[1].is_floating_point:
        return f"what crosses in front of it ({crossing[0].name}) is no floating-point tensor"
    if not few[0] or more[0] != (few[0][0] + 1, *few[0][1:]):
        return f"what crosses in front of it ({crossing[0].name}) does not begin with the samples' dimension"
    return ""


def _check_state(model: nn.Module) -> None:
    """Of the parts a state_dict is put together as PyTorch makes it of a model: hooks are not asked."""
    plain: dict[str, Tensor] = {
        f"{path}.{name}".lstrip("."): held
        for path, module in model.named_modules(remove_duplicate=False)
        for name, held in (*module._parameters.items(), *module._buffers.items())
        if held is not None and name not in module._non_persistent_buffers_set
    }
    found = model.state_dict(keep_vars=True)
    other = sorted(name for name in plain.keys() | found.keys() if plain.get(name) is not found.get(name))
    if other:
        raise CannotCutError(
            f"its state_dict() has {other[0]!r} otherwise than as its parameters and buffers under their names (a hook,"
            " a method of its own or extra state), and of a cut model it would not be what was trained"
        )


def _layers(model: nn.Module, missing: Sequence[str]) -> str:
    """Some of the layers that nothing uses; the model's own parameters by their names."""
    own = [name for name, _ in model.named_parameters(recurse=False)]
    names = [name for layer in missing for name in ([layer] if layer else own)]
    return ", ".join(repr(name) for name in names[:3])


def _check_task(whole: nn.Module, inputs: Tensor, targets: Tensor, task: Task) -> None:
    """The loss, in training or in an evaluation, must not need the inputs, which are not where it is computed."""
    rest = Rest(whole)
    for training in (True, False):
        whole.train(training)
        rest.activation = inputs
        try:
            with torch.set_grad_enabled(training):
                task(rest, ELSEWHERE, targets)
        except UserError as error:
            raise CannotCutError(error.rule) from error
        except Exception as error:
            raise CannotCutError(f"{_looks_at_inputs().rule} ({error})") from error


def _looks_at_inputs() -> UserError:
    return UserError(
        "model",
        "loss",
        "the loss looks at the inputs, or changes them before the model does: they are not on the device that"
        " computes it",
        "Call model(inputs) with the inputs as they are, once, and use nothing else of them",
    )


def _looks_at_model(name: str) -> UserError:
    return UserError(
        "model",
        "loss",
        f"the loss asks the model for {name!r}: only a part of the model is where the loss is computed",
        "Use nothing of the model but what model(inputs) answers",
    )


_Shape = tuple[tuple[int, ...], torch.dtype]


class _Shapes(fx.Interpreter):
    """Runs a traced model and notes the shape and type of every tensor, by the node's name."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, _Shape] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.found[n.name] = tuple(value.shape), value.dtype
        return value

    @classmethod
    def of(cls, module: fx.GraphModule, inputs: Tensor) -> dict[str, _Shape]:
        shapes = cls(module)
        shapes.run(inputs)
        return shapes.found
