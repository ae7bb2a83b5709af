"""Which layers' parameters a forward pass waits for before it reads them, and why: where a gate would not see the read
(`engine/instrumentation/gate.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn

from engine.instrumentation.compiled import region_of, regions
from engine.instrumentation.entries import Entries, Parameters
from engine.instrumentation.gate import Gate
from engine.instrumentation.raw_memory import GIVEN_AWAY
from engine.instrumentation.sharing import Sharing
from engine.instrumentation.unwatched import why_unwatched
from engine.plan.description import ParameterDescription


class WaitFinder:
    """Watches a described pass for compiled functions."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._parameters = dict(model.named_parameters())
        """By the names that they have when the pass begins, which may give them others."""
        self._functions = False
        """Whether a compiled function was entered of which nobody knows what it reads."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around the pass."""
        entries = Entries(self._model, self._entering)
        entries.watch()
        try:
            yield
        finally:
            entries.close()

    def found(self, layers: Mapping[str, Sequence[ParameterDescription]]) -> dict[str, str]:
        """By path of a layer that is waited for before it is read: when, and why. `layers`: their parameters."""
        parameters, compiled = self._parameters, regions(self._model)
        sharing, gate = Sharing(parameters), Gate(lambda parameter, function: True)
        unwatched = {
            own: why_unwatched(own) for own in {type(parameter) for parameter in parameters.values()}
        }
        found = {}
        for path, described in layers.items():
            own = [p.name for p in described if p.trainable]
            if any(sharing.is_given_away(name) for name in own):
                found[path] = f"before forward, because {GIVEN_AWAY}"
            elif any(sharing.is_shared(name) for name in own):
                found[path] = "before forward, because another tensor has its memory"
            elif why := next(filter(None, (unwatched[type(parameters[name])] for name in own)), ""):
                found[path] = f"before forward, because {why}"
            elif not all(gate.can_close(parameters[name]) for name in own):
                found[path] = "before forward, because the class of its parameters cannot be changed"
            elif region_of(path, compiled) is not None:
                found[path] = "when the compiled module around it is entered"
            elif self._functions:
                found[path] = "when a compiled function is entered, which may read any parameter"
        return found

    def _entering(self, parameters: Parameters | None) -> None:
        self._functions |= parameters is None
