"""The state of a model whose parts are trained in several processes, together again on worker 0 after training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from engine.coordination.dispatch import Dispatch
from engine.coordination.gather import Gather
from engine.models.cut import first_names
from engine.protocol.messages import Lane, Message
from engine.runtime.initial import InitialState, empty_state, host_state
from engine.runtime.party import PartyBase

Layout = dict[str, tuple[tuple[int, ...], str]]
"""Shapes and types by name."""


def layout_of(parts: Iterable[nn.Module]) -> Layout:
    """What `parts` hold together."""
    return {
        name: (tuple(held.shape), str(held.dtype).removeprefix("torch."))
        for part in parts
        for name, held in part.state_dict().items()
    }


def give(base: PartyBase, away: Layout, mine: Mapping[str, Tensor]) -> None:
    """Hand worker 0, which waits for `away`, what is here of it."""
    nothing = torch.empty(0)
    tensors = host_state({name: mine.get(name, nothing) for name in away})
    InitialState(tensors, base.launch.deadline_s, Message.STATE).send(base.endpoint, [(0, Lane.WORKER)])


class WholeState:
    """A worker's part in it. Of what is trained elsewhere only names and shapes are kept while training lasts."""

    def __init__(
        self, base: PartyBase, lane: Dispatch, everyone: Gather, model: nn.Module, held: Layout, away: Layout
    ) -> None:
        """`lane`: the worker's. `everyone`: all workers. `held`: what all parts of `model` hold; `away`: what worker 0
        does not."""
        self._base = base
        self._lane = lane
        self._everyone = everyone
        self._away = away
        self._first_names = first_names(model)
        self._unused = {
            name: value.clone()
            for name, value in model.state_dict().items()
            if name not in held and self._first_names[name] not in held
        }
        """What no part holds."""
        self._trained: InitialState | None = None

    def prepare(self) -> None:
        """Worker 0 makes room. Collective over the workers: afterwards, others may give."""
        if self._base.party.index == 0:
            self._trained = InitialState(empty_state(self._away), self._base.launch.deadline_s, Message.STATE)
            self._lane.add(self._trained.kinds, self._trained)
            self._base.endpoint.on_failure(self._trained.fail)
        self._everyone.run([torch.zeros(1)])

    def complete(self, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """On worker 0: the model's state_dict, of what is here and what the others give."""
        assert self._trained is not None, "prepare first"
        self._trained.wait("the processes that hold the other parts")
        found = {**own, **self._trained.tensors, **self._unused}
        return {name: found[first if first in found else name] for name, first in self._first_names.items()}
