"""What a model is besides its values: which buffers it has, which of them its state_dict has, what is frozen, and which
modules are in evaluation mode.

A forward pass may change all of it, once and for good, as after so many passes that a buffer counts: what was changed
before a cut would not be changed again behind it. So it is saved with the values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from engine.errors import TrainingError, UserError


class Built:
    """By which names a model, as it was built, has its parameters, and modules that may have buffers. Another attempt
    builds it anew, and gives it what was saved by these names."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {name for name, _ in model.named_parameters()}
        self._modules = {name for name, _ in model.named_modules()}

    def check(self, model: nn.Module, steps: int) -> None:
        """After so many steps. Raises TrainingError where what is to be saved would find no place."""
        parameters = {name for name, _ in model.named_parameters()}
        come = parameters - self._parameters
        come |= {name for name, _ in model.named_buffers() if name.rpartition(".")[0] not in self._modules}
        for name in sorted(come) or sorted(self._parameters - parameters):
            how = f"has {name}, which it had not" if name in come else f"has no {name} any more, which it had"
            raise TrainingError(
                f"after step {steps} the model {how} when it was built: who goes on from a checkpoint builds it anew,"
                " and finds what was saved by its name. Let the builder make that change, or leave"
                " checkpoint.every_steps out"
            )


def described(model: nn.Module) -> str:
    """As JSON. Values of buffers are under the first of their names in `named_buffers`."""
    first = {id(held): name for name, held in model.named_buffers()}
    return json.dumps(
        {
            "buffers": {
                name: [
                    None if held is None else first[id(held)],
                    leaf not in module._non_persistent_buffers_set,
                ]
                for name, module, leaf, held in _buffers(model)
            },
            "trained": {name: parameter.requires_grad for name, parameter in model.named_parameters()},
            "training": {name: module.training for name, module in model.named_modules()},
        }
    )


def check_buffers(model: nn.Module, said: str, values: Mapping[str, Tensor]) -> None:
    """Raises UserError where a model of another job, which `described` said of, has other buffers than this one as it
    was built, or some in modules that this one does not have. `values`: of those, by their first names."""
    wanted: dict[str, tuple[str | None, bool]] = json.loads(said)["buffers"]
    modules = {name for name, _ in model.named_modules()}
    built = {name: held for name, _, _, held in _buffers(model)}
    for name in sorted(built.keys() | wanted.keys()):
        first = wanted.get(name, (None, False))[0]
        there, here = None if first is None else values[first], built.get(name)
        other = here is not None and (there is None or (there.shape, there.dtype) != (here.shape, here.dtype))
        if other or name.rpartition(".")[0] not in modules:
            rule = f"the buffer {name} is {_form(there)} there and {_form(here)} here"
            raise UserError("checkpoint.start.job", name, rule, "Name a job with the same model")


def _form(held: Tensor | None) -> str:
    return "missing" if held is None else f"{str(held.dtype).removeprefix('torch.')} {list(held.shape)}"


@torch.no_grad()
def give_buffers(model: nn.Module, said: str, values: Mapping[str, Tensor]) -> None:
    """The model has the buffers that `described` names, with these values. One that is as it was made stays the same
    tensor."""
    wanted: dict[str, tuple[str | None, bool]] = json.loads(said)["buffers"]
    made = {}
    for name, module, leaf, held in _buffers(model):
        made[name] = held
        if name not in wanted:
            del module._buffers[leaf]
            module._non_persistent_buffers_set.discard(leaf)
    given: dict[str, Tensor] = {}
    for name, (first, persistent) in wanted.items():
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(owner)
        if first is not None and first not in given:
            given[first] = _given(made.get(name), values[first], given)
        if name not in made:
            module.register_buffer(leaf, None)
        module._buffers[leaf] = None if first is None else given[first]
        (set.discard if persistent else set.add)(module._non_persistent_buffers_set, leaf)


def give_modes(model: nn.Module, said: str) -> None:
    """What is frozen, and which modules are in evaluation mode. After all that looks at what was trainable when the
    model was built."""
    found = json.loads(said)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(found["trained"].get(name, parameter.requires_grad))
    for name, module in model.named_modules():
        module.training = found["training"].get(name, module.training)


def places_of_state(
    model: nn.Module, *, parameter: str, buffer: str, other: str
) -> tuple[dict[str, str | None], dict[str, Tensor]]:
    """By name in the model's state_dict: under which name a part of a checkpoint has the tensor, where parameters and
    buffers are under these prefixes and their first names; None for what is no tensor. And what is neither, as where a
    hook of the model's own makes it, to be saved under the third prefix."""
    values = model.state_dict()  # first: fully_shard divides parameters for it
    named = {
        name: (held, f"{prefix}/{first[id(held)]}")
        for prefix, found in (
            (parameter, dict(model.named_parameters(remove_duplicate=False))),
            (buffer, dict(model.named_buffers(remove_duplicate=False))),
        )
        for first in ({id(held): name for name, held in reversed(found.items())},)
        for name, held in found.items()
    }
    places: dict[str, str | None] = {}
    others = {}
    for name, value in values.items():
        held, place = named.get(name, (None, f"{other}/{name}"))
        if not isinstance(value, Tensor):
            places[name] = None
            continue
        if held is None or _memory(held) != _memory(value):
            place = f"{other}/{name}"
            others[name] = value
        places[name] = place
    return places, others


def _memory(tensor: Tensor) -> tuple[object, ...]:
    part: Callable[[], Tensor] = getattr(
        tensor, "to_local", tensor.detach
    )  # where it is divided over workers
    tensor = part()
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _given(made: Tensor | None, value: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """The tensor that was there, unless it has another form or another buffer has it already."""
    if made is None or (made.shape, made.dtype) != (value.shape, value.dtype):
        return value
    if any(made is other for other in given.values()):
        return value
    return made.copy_(value)


def _buffers(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Tensor | None]]:
    """Each name of each buffer, its module, its name there and what it holds."""
    for path, module in model.named_modules():
        for leaf, held in list(module._buffers.items()):
            yield f"{path}.{leaf}" if path else leaf, module, leaf, held
