"""Blocks: on which modules' calls a mechanism stands, so that it has all of a layer's activations and nobody else's.

A block is the largest module all of whose layers ask for the same with the same options. A mechanism may be one
of single modules, whose blocks are those without children. Where it divides, the model as a whole is none, and
neighbours in an nn.Sequential that ask for the same are grouped. Of a model that was cut, a part is called as a whole,
and so are PyTorch's own modules in it, but no module between (`engine/models/cut.py`): a part whose layers all ask for
the same is one block.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import fx, nn

from engine.errors import UserError
from engine.instrumentation.compiled import regions
from engine.instrumentation.module_calls import Around, Surrounded, around_forward
from engine.memory.mechanism import Block, Mechanism
from engine.plan.description import ModelDescription

_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
"""Containers without a forward pass of their own."""


class Asked(NamedTuple):
    """What a layer asks for."""

    activations: str
    options: Any


class Found(NamedTuple):
    """A block, and what its layers ask for. `row`: the nn.Sequential in which it is a few neighbours."""

    block: Block
    choice: Asked
    row: nn.Module | None


class Finder:
    """Finds the blocks of one part of a model."""

    def __init__(
        self,
        part: nn.Module,
        model: ModelDescription,
        choices: Mapping[str, Asked],
        mechanism: Callable[[str], Mechanism],
    ) -> None:
        """`choices`: of the layers that do not keep their activations, whose mechanisms `mechanism` answers."""
        self._part = part
        self._choices = choices
        self._mechanism = mechanism
        names = {p.name: layer.name for layer in model.layers for p in layer.parameters if p.trainable}
        self._layer_of = {id(p): names[name] for name, p in part.named_parameters() if name in names}
        self._position = {layer.name: layer.index for layer in model.layers}
        self._path = {id(module): name for name, module in part.named_modules()}
        self._uses = Counter(id(child) for module in part.modules() for child in module._modules.values())

    def find(self) -> list[Found]:
        """The blocks. Raises UserError for a layer of this part whose activations no block would have."""
        for path, region in regions(self._part).items():
            self._refuse_in(
                region, f"it is in compiled code ({path or 'the whole model'}), which is called as a whole"
            )
        found = list(self._below(self._part))
        covered = {layer for each in found for layer in each.block.layers}
        own = {self._layer_of.get(id(p)) for p in self._part.parameters(recurse=False)}
        for layer in self._layers(self._part):
            if layer not in self._choices or layer in covered:
                continue
            if layer not in own:
                self._refuse(
                    layer, "the module that uses its parameters has layers that ask for something else"
                )
            print(
                f"warning: {layer or 'the root'} is the whole model's own forward: what that saves stays",
                flush=True,
            )
        return found

    def _below(self, module: nn.Module) -> Iterator[Found]:
        layers = self._layers(module)
        asked = {self._choices.get(layer) for layer in layers}
        if not layers or asked == {None}:
            return
        children = list(self._called_in(module))
        if len(asked) == 1 and not isinstance(module, _NEVER_CALLED):
            (choice,) = asked
            assert choice is not None
            of = self._mechanism(choice.activations)
            divided = of.divides and children and not isinstance(module, fx.GraphModule)
            below = (of.single and children) or (divided and (module is self._part or _is_sequential(module)))
            if not below:
                yield Found(self._block(module), choice, None)
                return
        if _is_sequential(module) and all(self._uses[id(child)] == 1 for child in children):
            yield from self._in_rows(module, children)
            return
        for child in children:
            yield from self._below(child)

    def _in_rows(self, row: nn.Module, children: list[nn.Module]) -> Iterator[Found]:
        """Neighbours of a kind that is divided are grouped: those without layers go with the one in front of them."""
        runs: list[tuple[Asked | None, list[nn.Module]]] = []
        for child in children:
            asked = {self._choices.get(layer) for layer in self._layers(child)}
            if not asked:
                if runs:
                    runs[-1][1].append(child)
                continue
            choice = next(iter(asked)) if len(asked) == 1 else None
            if choice is None or not self._mechanism(choice.activations).divides:
                runs.append((None, [child]))
            elif runs and runs[-1][0] == choice:
                runs[-1][1].append(child)
            else:
                runs.append((choice, [child]))
        for choice, members in runs:
            layered = sum(1 for child in members if self._layers(child))
            if choice is None or (layered == 1 and _is_sequential(members[0])):
                for child in members:
                    yield from self._below(child)
                continue
            for group in self._groups(members, choice.options.neighbours or round(math.sqrt(layered))):
                yield Found(self._block(*group), choice, row if len(group) > 1 else None)

    def _groups(self, members: list[nn.Module], size: int) -> Iterator[list[nn.Module]]:
        """So many with layers in each, but perhaps in the last."""
        group: list[nn.Module] = []
        layered = 0
        for child in members:
            if self._layers(child):
                if layered == size:
                    yield group
                    group, layered = [], 0
                layered += 1
            group.append(child)
        yield group

    def _called_in(self, module: nn.Module) -> Iterator[nn.Module]:
        """The modules that its forward calls, as far as its class says."""
        if not isinstance(module, fx.GraphModule):
            yield from module.children()
            return
        targets = dict.fromkeys(str(node.target) for node in module.graph.nodes if node.op == "call_module")
        yield from dict.fromkeys(module.get_submodule(target) for target in targets)

    def _layers(self, module: nn.Module) -> list[str]:
        """The layers below a module, in forward order."""
        found = {self._layer_of[id(p)] for p in module.parameters() if id(p) in self._layer_of}
        return sorted(found, key=self._position.__getitem__)

    def _block(self, *modules: nn.Module) -> Block:
        layers = sorted({name for m in modules for name in self._layers(m)}, key=self._position.__getitem__)
        return Block(modules=modules, layers=tuple(layers), index=self._position[layers[0]])

    def _refuse_in(self, region: nn.Module, why: str) -> None:
        for layer in self._layers(region):
            if layer in self._choices:
                self._refuse(layer, why)

    def _refuse(self, layer: str, why: str) -> None:
        raise UserError(
            f"layers.{layer or '(root)'}.activations",
            self._choices[layer].activations,
            f"nothing could be done with what this layer saves for backward: {why}",
            "Keep its activations, or give the layers around it the same choice",
        )


def _is_sequential(module: nn.Module) -> bool:
    """Whether its forward calls one child after the other, and does nothing else."""
    plain = type(module).forward is nn.Sequential.forward if isinstance(module, nn.Sequential) else False
    return plain and "forward" not in vars(module)


class Row:
    """Neighbours in an nn.Sequential that run as one: all of them when the first is called; the others then answer with
    what they are given, which is what the last of them has made of it."""

    def __init__(self, modules: tuple[nn.Module, ...], around: Around) -> None:
        self._modules = modules
        self._around = around
        self.open = False
        """The nn.Sequential is being called."""
        self._running = False
        self._passing = 0
        """How many have run already, and are about to be called."""

    def install(self) -> Iterator[Surrounded]:
        yield around_forward(self._modules[0], self._first)
        for module in self._modules[1:]:
            yield around_forward(module, self._other)

    def close(self) -> None:
        """The call of the nn.Sequential has ended."""
        self.open, self._passing = False, 0

    def _first(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.open or self._running:
            return run(*args, **kwargs)

        def all_of_them(value: Any) -> Any:
            before, self._running = self._running, True
            try:
                value = run(value)
                for module in self._modules[1:]:
                    value = module(value)
            finally:
                self._running = before
            return value

        result = self._around(all_of_them, args, kwargs)
        self._passing = len(self._modules) - 1
        return result

    def _other(self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._passing and not self._running:
            self._passing -= 1
            return args[0]
        return run(*args, **kwargs)


def surround(found: Iterable[Found], around: Callable[[Found], Around]) -> list[Surrounded]:
    """Let `around(block)` stand around the calls of each block."""
    surrounded: list[Surrounded] = []
    rows: dict[nn.Module, list[Row]] = defaultdict(list)
    for each in found:
        if each.row is None:
            surrounded.append(around_forward(each.block.modules[0], around(each)))
        else:
            row = Row(each.block.modules, around(each))
            surrounded += row.install()
            rows[each.row].append(row)
    return surrounded + [_surround_rows(parent, below) for parent, below in rows.items()]


def _surround_rows(row: nn.Module, rows: list[Row]) -> Surrounded:
    """Open and close `rows` around each call of the nn.Sequential in which they are."""

    def around(run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for each in rows:
            each.open = True
        try:
            return run(*args, **kwargs)
        finally:
            for each in rows:
                each.close()

    return around_forward(row, around)
