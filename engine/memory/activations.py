"""Activations: the memory mechanisms that a plan names for the layers of one part of a model, at work.

Each stands around the calls of its blocks (`blocks.py`), in the forward part of training passes only: an evaluation
runs as ever, and what is saved for backward outside of all blocks stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.axes.memory import ACTIVATIONS
from engine.instrumentation.module_calls import Around
from engine.memory.blocks import Asked, Finder, Found, surround
from engine.memory.mechanism import Mechanism, Site
from engine.plan.description import ModelDescription


class Activations:
    """See `engine.state.computation.Memory`."""

    def __init__(self, site: Site, model: ModelDescription, choices: Mapping[str, Asked]) -> None:
        """`choices`: of the layers that do not keep their activations, by name. Raises UserError for a layer of which
        nothing can be had."""
        self._passes = site.passes
        wanted = dict.fromkeys(choice.activations for choice in choices.values())
        self._mechanisms: dict[str, Mechanism] = {name: ACTIVATIONS[name].load()(site) for name in wanted}
        finder = Finder(site.part, model, choices, self._mechanisms.__getitem__)
        found = finder.find()
        self._never: dict[str, None] = dict.fromkeys(each.block.name for each in found)
        """Blocks that have not been called in training, by name."""
        self._looked = False
        self._around = surround(found, self._around_calls)

    def _around_calls(self, found: Found) -> Around:
        mechanism = self._mechanisms[found.choice.activations]
        return self._noticing(found.block.name, mechanism.around(found.block, found.choice.options))

    def _noticing(self, name: str, around: Around) -> Around:
        def noticed(run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._passes.forward:
                self._never.pop(name, None)
            return around(run, args, kwargs)

        return noticed

    @contextmanager
    def training(self, inputs: Any) -> Iterator[None]:
        """See Memory."""
        for mechanism in self._mechanisms.values():
            mechanism.begin_forward(inputs)
        self._passes.forward = True
        try:
            yield
        finally:
            self._passes.forward = False

    @contextmanager
    def backward(self) -> Iterator[None]:
        """See Memory."""
        if not self._looked:
            self._looked = True
            for name in self._never:
                print(
                    f"warning: {name} was not called by itself in the first training pass, so its activations stay"
                    " where they are as long as that is so. Give the layers around it the same choice",
                    flush=True,
                )
        self._passes.backward = True
        try:
            yield
        finally:
            self._passes.backward = False

    def close(self) -> None:
        """See Memory."""
        for each in self._around:
            each.remove()
        for mechanism in self._mechanisms.values():
            mechanism.close()
