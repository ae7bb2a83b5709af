"""Writes: what a model, its loss or its hooks do to parameters besides the update.

Autograd counts writes, so most are seen when a parameter's gradient leaves: `clamp_` or `copy_` under `no_grad`, an
Embedding's `max_norm`, another tensor in `.data`. Where this worker updates the parameter, it updates what was written,
as plain PyTorch does; all workers have to have written the same (`agreement.py`). Where a server updates it, what was
written goes there first (`Message.ASSIGN`).

Writes through `.data`, NumPy or a view kept elsewhere are not counted. Where a server's answer would overwrite them, a
checksum taken when a version comes is compared with one taken when the gradient leaves: of everything in the first
`Rounds.FIRST` steps; later of a part of the parameters in each step, in turn, and of what is seen to be handed to such
writers. What is found ends the job, since an earlier write may have been lost. Where workers update, such a write is
not lost, and the workers' checksums are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from torch import Tensor
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.plan.units import Unit
from engine.runtime.checksum import Rounds, checksum
from engine.runtime.gate import past_gates

_ACCESS: Any = Tensor.data
_UNCOUNTED = frozenset(
    [_ACCESS.__get__, Tensor.detach, Tensor.data_ptr, Tensor.untyped_storage, Tensor.__array__, Tensor.numpy]
)
"""What hands a parameter's memory to who may write to it unseen."""


_State: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Checksums of one step, by parameter."""

    looked_at: dict[str, int]
    """Of what was due."""
    wrote: dict[str, int]
    """Of the parameters that something wrote to and that are updated here."""


class Writes:
    """Looks at one worker's parameters when their version comes and when they leave."""

    def __init__(
        self, parameters: Mapping[str, Parameter], *, served: Collection[str], compared: bool
    ) -> None:
        """`parameters`: all that are here, frozen ones as well. `served`: those that a server updates. `compared`:
        whether other workers have the same parameters."""
        self.parameters = parameters
        self._served = frozenset(served)
        self._compared = compared
        self._counts = {
            name: parameter.numel()
            for name, parameter in parameters.items()
            if compared or name in self._served
        }
        self._rounds = Rounds(self._counts)
        self._due: dict[str, tuple[int, int]] = {}
        """By parameter: first element and end of what is looked at in this step, on every worker alike."""
        self._whole: set[str] = set()
        """Parameters of which all is looked at in this step."""
        self._writers: set[str] = set()
        """Parameters that have been written to in an earlier step."""
        self._known: dict[str, _State] = {}
        """By parameter: its state when its version came."""
        self._left: dict[str, _State] = {}
        """The same, when its gradient left."""
        self._before: dict[str, Tensor] = {}
        """Checksums of what is looked at, when its version came."""
        self._after: dict[str, Tensor] = {}
        """The same, when its gradient left."""
        self._said: dict[str, Tensor] = {}
        """Checksums of what is due."""
        self.written: set[str] = set()
        """Parameters that were written to in the step, as far as autograd counts."""

    def in_unit(self, unit: Unit) -> bool:
        """Whether a part of the unit was written to in the step, as far as autograd counts."""
        return any(segment.parameter in self.written for segment in unit.segments)

    def begin_step(self, step: int, here: Iterable[str]) -> None:
        """`here`: the parameters whose version has come already."""
        self._due = self._rounds.due(step)
        self._whole = {
            name for name, part in self._due.items() if part == (0, self._counts[name])
        } | self._writers
        self.written.clear()
        self._before.clear()
        if step == 0:
            self.came(here)
            return
        for name in here:
            self._look_before(name)

    def came(self, names: Iterable[str]) -> None:
        """The parameters hold their version now, and may be read."""
        for name in names:
            self._known[name] = self._state(name)
            self._look_before(name)

    def handed_out(self, name: str, function: Any) -> None:
        """`function` is the first to get the parameter in a step. None: some tensor shares its memory."""
        if name in self._served and name not in self._whole and (function is None or function in _UNCOUNTED):
            self._whole.add(name)
            self._look_before(name)

    def leaves(self, name: str) -> None:
        """The parameter's gradient is about to leave."""
        self._left[name] = self._state(name)
        changed = self._left[name] != self._known[name]
        if changed and name not in self._whole:
            self._whole.add(name)
            self._before.pop(name, None)  # of a part
        self._look_after(name)
        if changed and not self._is_as_before(name):
            self.written.add(name)
            self._writers.add(name)

    def end_backward(self, read: Iterable[str]) -> Callable[[], Seen]:
        """`read`: parameters that were read in backward after their gradient had left. Raises TrainingError where
        something has been written to one of them.

        Answers what tells what was seen in the step, once the device has computed it: that raises TrainingError for a
        write that autograd did not count and no server has seen.
        """
        for name in read:
            if self._state(name) != self._left[name]:
                raise TrainingError(
                    f"{name} was written to in backward after its gradient had left. Write to it in forward, in the"
                    " loss or in a hook of the parameter itself"
                )
        for name in self._due.keys() - self._left.keys():  # nothing ever leaves of a frozen one
            self._look_after(name)
        look = partial(
            _look,
            lost={
                n: (v, self._after[n]) for n, v in self._before.items() if n in self._served - self.written
            },
            looked_at=self._said,
            wrote={n: self._after[n] for n in self.written - self._served},
        )
        self._before, self._after, self._said, self._left = {}, {}, {}, {}
        return look

    def _is_as_before(self, name: str) -> bool:
        """Whether what was written is what had been there, as far as that can be said at once."""
        before, after = self._before.get(name), self._after[name]
        return before is not None and after.device.type == "cpu" and bool(before == after)

    def _look_before(self, name: str) -> None:
        if name in self._whole:
            self._before[name] = self._checksum(name, (0, self._counts[name]))
        elif name in self._due and name in self._served:
            self._before[name] = self._checksum(name, self._due[name])

    def _look_after(self, name: str) -> None:
        if name in self._whole:
            self._after[name] = self._checksum(name, (0, self._counts[name]))
        part = self._due.get(name)
        if part is not None:
            alike = name in self._whole and part == (0, self._counts[name])
            self._said[name] = self._after[name] if alike else self._checksum(name, part)
            self._after.setdefault(name, self._said[name])

    @past_gates
    def _state(self, name: str) -> _State:
        """How often autograd has seen it change, and where it lies."""
        parameter = self.parameters[name]
        return parameter._version, parameter.data_ptr()

    @past_gates
    def _checksum(self, name: str, part: tuple[int, int]) -> Tensor:
        return checksum(self.parameters[name].detach().reshape(-1)[slice(*part)])


def unequal(name: str, rank: int) -> TrainingError:
    """The parameter or layer has been written to, and differently on workers 0 and `rank`."""
    return TrainingError(
        f"{name} is not the same on worker 0 and on worker {rank}: the model or its loss writes to it, and not alike"
        " everywhere (the `max_norm` of an Embedding does so, since each worker looks up other rows). Write what does"
        " not depend on a worker's own samples, register what does as a buffer, or train with one worker"
    )


def _look(
    *, lost: dict[str, tuple[Tensor, Tensor]], looked_at: dict[str, Tensor], wrote: dict[str, Tensor]
) -> Seen:
    for name, (before, after) in lost.items():
        if int(before) != int(after):
            raise TrainingError(
                f"{name} was written to in a way that autograd does not see (`.data`, NumPy, or a view that was kept),"
                " and the server that updates it has not seen it. Write to the parameter itself:"
                " `with torch.no_grad(): parameter.copy_(...)`"
            )
    return Seen(
        looked_at={name: int(value) for name, value in looked_at.items()},
        wrote={name: int(value) for name, value in wrote.items()},
    )
