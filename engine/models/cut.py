"""Cutting a model in front of a layer, into a front and a back that keep the names of their parameters.

The model is traced with torch.fx: its own modules are looked into, PyTorch's (`torch.nn`) stay whole. So a part holds
the model's own modules and does what `train()` and `eval()` say, batches may have any size, and a part's state_dict
has the model's names. (torch.export, and with it the tracer of torch.distributed.pipelining, writes dropout and batch
normalization down for one of the two modes.) Every node of the traced pass that comes before the first use of the
layer belongs to the front, the rest to the back; one tensor crosses from one to the other.

What cannot be cut is said by `find_cuts`, with the reason: control flow that looks at values or at `self.training`,
several values that cross, a layer used on both sides, a loss that looks at the inputs. Control flow that depends on
anything else but the inputs, a random number say, is frozen as it was when the model was traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_arg

from engine.errors import UserError
from engine.inputs.task import Task
from engine.plan.description import CutDescription


class CannotCutError(Exception):
    """The model cannot be cut anywhere; the message says why."""


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

    def forward(self, inputs: Any) -> Any:
        """What the model would have returned. Raises UserError for a task that changes the inputs first."""
        if inputs is not ELSEWHERE:
            raise _looks_at_inputs()
        return self._back(self.activation)


def cut(model: nn.Module, layer: str) -> Parts:
    """Cut `model` in front of `layer`, one of those that `find_cuts` offers."""
    with _traced(model) as traced:
        nodes = list(traced.nodes)
        at = _first_uses(model, nodes)[layer][0]
        (crossing,) = _crossing(nodes, at)
        front, back = fx.Graph(), fx.Graph()
        places: dict[fx.Node, fx.Node] = {}
        for node in nodes[:at]:
            places[node] = front.node_copy(node, places.__getitem__)
        front.output(places[crossing])
        places = {crossing: back.placeholder("activation")}
        for node in nodes[at:-1]:
            places[node] = back.node_copy(node, places.__getitem__)
        back.output(map_arg(nodes[-1].args[0], places.__getitem__))
        parts = Parts(front=_module(model, front, "Front"), back=_module(model, back, "Back"))
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


def find_cuts(model: nn.Module, inputs: Tensor, targets: Tensor, task: Task) -> tuple[CutDescription, ...]:
    """Every layer of `model` in the order of its first use, and what crosses in front of it, per sample, or why the
    model cannot be cut there. `inputs` (n, ...) and `targets` (n, ...), n > 1: an example batch on the model's device.

    Raises CannotCutError where it can be cut nowhere.
    """
    with _traced(model) as traced, torch.no_grad():
        nodes = list(traced.nodes)
        uses = _first_uses(model, nodes)
        owners = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
        if missing := sorted(owners - uses.keys()):
            shown = ", ".join(repr(name) for name in missing[:3])
            raise CannotCutError(f"its forward pass does not use {shown}, which would belong to neither part")
        whole = _module(model, traced, "Whole")
        if renamed := sorted(
            {n for n, _ in model.named_parameters()} - {n for n, _ in whole.named_parameters()}
        ):
            raise CannotCutError(f"its forward pass uses {renamed[0]!r} under another name only (tied)")
        _check_task(whole, inputs, targets, task)
        shapes = _Shapes.of(whole, inputs), _Shapes.of(whole, torch.cat([inputs, inputs[:1]]))
        first = Counter(at for at, _ in uses.values())
        found: list[CutDescription] = []
        for layer, (at, _) in sorted(uses.items(), key=lambda item: item[1][0]):
            crossing = _crossing(nodes, at)
            refused = _refusal(uses, at, crossing, shapes)
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


@contextmanager
def _traced(model: nn.Module) -> Iterator[fx.Graph]:
    """The model's forward pass as a graph. Raises CannotCutError."""
    modes = {module: module.training for module in model.modules()}
    own = set(vars(model))
    try:
        graphs = []
        for training in (True, False):
            for name in vars(model).keys() - own:  # tensors made while tracing: the same names in both passes
                delattr(model, name)
            model.train(training)
            graphs.append(_trace(model))
        if graphs[0].python_code("self").src != graphs[1].python_code("self").src:
            raise CannotCutError(
                "its forward pass does other things in training than in evaluation (it looks at `self.training`;"
                " modules such as torch.nn.Dropout may)"
            )
        yield graphs[1]
    finally:
        for module, training in modes.items():
            module.training = training
        for name in vars(model).keys() - own:
            delattr(model, name)


def _trace(model: nn.Module) -> fx.Graph:
    try:
        return fx.Tracer().trace(model)
    except Exception as error:  # whatever a user's code says to a tensor without values
        lines = str(error).strip().splitlines() or [""]
        raise CannotCutError(
            f"torch.fx cannot trace its forward pass: {type(error).__name__}: {lines[0]}"
        ) from error


def _module(model: nn.Module, graph: fx.Graph, name: str) -> fx.GraphModule:
    """What computes `graph`, with the model's own modules and under their names."""
    made = fx.GraphModule(model, graph, name)
    _in_order(made, model)
    return made


def _in_order(made: nn.Module, model: nn.Module) -> None:
    """Bring the modules of `made`, which come in the order of their use, into the model's: of a tied parameter's names
    the first one counts."""
    for name, module in model._modules.items():
        mine = made._modules.pop(name, None)
        if mine is not None and module is not None:
            made._modules[name] = mine
            if mine is not module:
                _in_order(mine, module)


def _first_uses(model: nn.Module, nodes: Sequence[fx.Node]) -> dict[str, tuple[int, int]]:
    """Layer (the module that owns a parameter first) -> first and last node that uses it."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    position = {node: index for index, node in enumerate(nodes)}
    found: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(nodes):
        if node.op == "call_module":
            used: list[Tensor] = list(model.get_submodule(str(node.target)).parameters())
            last = at
        elif node.op == "get_attr":
            used = [_attribute(model, str(node.target))]
            last = _last_use(node, position)
        else:
            continue
        for parameter in used:
            if id(parameter) in names:
                layer = names[id(parameter)].rpartition(".")[0]
                first, before = found.get(layer, (at, last))
                found[layer] = (first, max(before, last))
    return found


def _last_use(node: fx.Node, position: dict[fx.Node, int]) -> int:
    """Where a parameter meets something else for the last time: what is made of it alone (a transposed view) is still
    the parameter."""
    last = position[node]
    for user in node.users:
        alone = all(source is node for source in user.all_input_nodes)
        last = max(last, _last_use(user, position) if alone else position[user])
    return last


def _attribute(model: nn.Module, path: str) -> Any:
    where, _, name = path.rpartition(".")
    return getattr(model.get_submodule(where), name)


def _crossing(nodes: Sequence[fx.Node], at: int) -> list[fx.Node]:
    """The values made before node `at` that are used from there on."""
    position = {node: index for index, node in enumerate(nodes)}
    return [node for node in nodes[:at] if any(position[user] >= at for user in node.users)]


def _refusal(
    uses: dict[str, tuple[int, int]],
    at: int,
    crossing: Sequence[fx.Node],
    shapes: tuple[dict[str, _Shape], dict[str, _Shape]],
) -> str:
    """Why the model cannot be cut in front of node `at`; empty where it can."""
    if not any(first < at for first, _ in uses.values()):
        return "no layer would be left in front of it"
    both = [layer for layer, (first, last) in uses.items() if first < at <= last]
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


def _check_task(whole: nn.Module, inputs: Tensor, targets: Tensor, task: Task) -> None:
    """The loss must not need the inputs, which are not where it is computed."""
    rest = Rest(whole)
    rest.activation = inputs
    try:
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
