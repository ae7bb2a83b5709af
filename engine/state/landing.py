"""Landing: when new parameters that a server sends may overwrite the old ones.

They may come while backward still runs on other layers. Nothing that autograd computes needs the old ones then, because
a unit leaves when its gradient is final; but a hook, a recomputation or a custom backward function may read them, or a
tensor that shares their memory may be needed, and has to see what forward saw. So what is looked at, or may be, is
held: what comes for it is kept beside until the next forward pass uses it. Nobody looks at most parameters, and these
are received in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from torch import Tensor

from engine.plan.units import Unit


class Beside(NamedTuple):
    """What was received for a unit that may not land."""

    received: Tensor | None
    """None where it is the caller's to remember."""
    then: Callable[[], None]
    """To be called once it is in its place."""
    adds: bool = False
    """It is what the parameters have moved by."""


class Landing:
    """Which units may land. The training thread holds, threads of the transport land."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._holds_all = True
        self._landed: set[int] = set()
        """Units that have landed, or are being received in place, since backward began."""
        self._beside: dict[int, Beside] = {}
        """By unit: what came last."""

    def begin_backward(self, *, holds_all: bool) -> None:
        """Units will leave from now on. `holds_all`: nothing of this step may land before it is used."""
        with self._lock:
            self._holds_all = holds_all
            self._landed.clear()
            self._held.clear()

    def hold(self, parameter: str, units: Iterable[Unit]) -> bool:
        """Let nothing of `units`, which the parameter is part of, land before it is used; False where something has."""
        with self._lock:
            self._held.add(parameter)
            return not any(unit.index in self._landed for unit in units)

    def may_land(self, unit: Unit) -> bool:
        """Whether the unit's parameters may be overwritten; if so, they count as overwritten."""
        with self._lock:
            if self._holds_all or any(s.parameter in self._held for s in unit.segments):
                return False
            self._landed.add(unit.index)
            return True

    def keep_beside(self, unit: Unit, beside: Beside) -> None:
        """The unit may not land; what was kept for it before is out of date."""
        with self._lock:
            self._beside[unit.index] = beside

    def take(self, unit: Unit) -> Beside | None:
        """What was kept beside for the unit, if anything; it is forgotten here."""
        with self._lock:
            return self._beside.pop(unit.index, None)
