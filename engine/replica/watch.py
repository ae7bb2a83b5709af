"""Watch: one worker's parameters are looked at in every step, and what was seen is told
(`engine/instrumentation/writes.py`, `engine/coordination/agreement.py`).

What a step's checksums are is known when the device has computed them. So it is asked when the next step's backward
pass is about to begin: the host has waited for the device by then in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from engine.coordination.agreement import Agreement
from engine.instrumentation.writes import Seen, Writes


class Watch:
    """What a replica tells of its steps. Methods raise TrainingError where something is wrong."""

    def __init__(
        self, writes: Writes, agreement: Agreement | None, *, agreed: Collection[str], meets: bool
    ) -> None:
        """`agreement`: with other workers that hold the same of the parameters `agreed`. `meets`: whether all of them
        are in the same step before an evaluation."""
        self._writes = writes
        self._agreement = agreement
        self._agreed = frozenset(agreed)
        self._meets = meets
        self._unsaid: list[tuple[int, Callable[[], Seen]]] = []

    def begin_step(self, step: int, here: Iterable[str]) -> None:
        """`here`: the parameters whose version has come already."""
        self._writes.begin_step(step, self._here(here))

    def came(self, names: Iterable[str]) -> None:
        """The parameters hold their version now."""
        self._writes.came(self._here(names))

    def handed_out(self, name: str) -> None:
        """Some tensor shares the parameter's memory."""
        self._writes.handed_out(name)

    def leaves(self, names: Iterable[str]) -> None:
        """The parameters' gradients are about to leave."""
        self._writes.leaves(self._here(names))

    def end_backward(self, step: int, read: Iterable[str]) -> None:
        """`read`: parameters that were read in backward after their gradient had left."""
        self._unsaid.append((step, self._writes.end_backward(self._here(read))))

    def tell(self) -> None:
        """Say what has been seen so far."""
        unsaid, self._unsaid = self._unsaid, []
        for step, look in unsaid:
            seen = look()
            if self._agreement is not None:
                looked_at = {n: value for n, value in seen.looked_at.items() if n in self._agreed}
                self._agreement.report(step, replace(seen, looked_at=looked_at))

    def check(self) -> None:
        """Compare everything, now, before an evaluation or a saved state. Collective where workers meet for these."""
        self.tell()
        if self._agreement is not None and self._meets:
            self._agreement.check()
        self._writes.begin_evaluation()

    def finished(self, step: int) -> None:
        """Where workers do not meet: this one has made its last step, and so has everybody. Collective."""
        self.tell()
        if self._agreement is not None:
            self._agreement.check(step)

    def _here(self, names: Iterable[str]) -> list[str]:
        """Of these the parameters that are looked at."""
        return [name for name in names if name in self._writes.parameters]
