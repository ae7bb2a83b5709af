"""Writes: what a model, its loss or its hooks do to parameters besides the update.

Autograd counts writes, so most are seen when a parameter's gradient leaves: `clamp_` or `copy_` under `no_grad`, an
Embedding's `max_norm`, another tensor in `.data`. Where this worker updates the parameter, it updates what was written,
as plain PyTorch does; all workers have to have written the same (`engine/coordination/agreement.py`). Where a server
updates it, what was written goes there first (`Message.ASSIGN`).

Writes through `.data`, NumPy or a view kept elsewhere are not counted. Where a server's answer would overwrite them, a
checksum taken when a version comes is compared with one taken when the gradient leaves. Looked at is what was given
away to such writers (`raw_memory.py`): in that step, or, where it may have been kept, in every step from then on, so
that a single write is found in its own. Looked at is also everything in the first `Turns.FIRST` steps, and later a part
of the parameters in each step, in turn, for the writers that nothing notices (C++ extensions, compiled regions). What
is found ends the job, since an earlier write may have been lost. Where workers update, such a write is not lost, and
the workers' checksums are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import Parameter

from engine.errors import TrainingError
from engine.instrumentation.checksum import Turns, checksum
from engine.instrumentation.gate import past_gates
from engine.instrumentation.raw_memory import POINTER, STORAGE, is_given_away, listen, memory_of
from engine.plan.units import Unit

_State: TypeAlias = tuple[int, int, StorageWeakRef]
"""How often autograd has seen it change, where it lies, and in which memory: an address may be had by one memory after
the other, and a memory that is referred to is not taken for the next one."""


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
        self._rounds = Turns(self._counts)
        self._due: dict[str, tuple[int, int]] = {}
        """By parameter: first element and end of what is looked at in this step, on every worker alike."""
        self._whole: set[str] = set()
        """Parameters of which all is looked at in this step."""
        self._handed_out: set[str] = set()
        """Parameters whose memory somebody was given since their last gradient left."""
        self._kept: set[str] = set()
        """Parameters whose memory somebody may have kept, and write to in any step."""
        self._writers: set[str] = set()
        """Parameters that have been written to in an earlier step, were it what had been there."""
        self._known: dict[str, _State] = {}
        """By parameter: its state when its version came."""
        self._left: dict[str, _State] = {}
        """The same, when its gradient left."""
        self._memory: dict[str, StorageWeakRef] = {}
        """By parameter: what it lay in when it was last looked at."""
        self._before: dict[str, Tensor] = {}
        """Checksums of what is looked at, when its version came."""
        self._evaluated: dict[str, Tensor] = {}
        """Checksums of whole parameters from before an evaluation, which may write to them. Autograd counts
        what changes nothing, too, as `max_norm` does to a row that is not too long; that must not count where only some
        workers look it up."""
        self._after: dict[str, Tensor] = {}
        """The same, when its gradient left."""
        self._late: dict[str, Tensor] = {}
        """Checksums of what somebody was given after its gradient had left, from just before."""
        self._said: dict[str, Tensor] = {}
        """Checksums of what is due."""
        self.written: set[str] = set()
        """Parameters that were written to in the step, as far as autograd counts."""
        self._at: dict[int, set[str]] = {}
        """By the address of a storage: the parameters that a server updates and that lie there."""
        self._address: dict[str, int] = {}
        if self._served:
            for name in self._served:
                self._lies(name)
            listen(self)

    def in_unit(self, unit: Unit) -> bool:
        """Whether a part of the unit was written to in the step, as far as autograd counts."""
        return any(segment.parameter in self.written for segment in unit.segments)

    @past_gates
    def begin_step(self, step: int, here: Iterable[str]) -> None:
        """`here`: the parameters whose version has come already."""
        self._due = self._rounds.due(step)
        self._whole = {
            name for name, part in self._due.items() if part == (0, self._counts[name])
        } | self._writers
        self.written.clear()
        given = self._handed_out | self._kept
        self._whole |= given
        self._before = {name: self._before[name] for name in given & self._before.keys()}
        if not self._known:  # the first step of this process, whichever of the job's that is
            self.came(here)
            return
        for name in here:
            # What an evaluation wrote since it came belongs to this step, even if nothing more is written in it.
            if name not in self._counts or name in self._before:
                continue
            if self._state(name) == self._known[name]:
                self._look_before(name)
            elif name in self._evaluated:
                self._whole.add(name)
                self._before[name] = self._evaluated[name]
        self._evaluated = {}

    @past_gates
    def begin_evaluation(self) -> None:
        """All versions are here, and an evaluation is about to read them."""
        self._evaluated = {
            name: self._checksum(name, (0, count))
            for name, count in self._counts.items()
            if name in self._known and self._state(name) == self._known[name]
        }

    @past_gates
    def came(self, names: Iterable[str]) -> None:
        """The parameters hold their version now, and may be read."""
        for name in names:
            self._known[name] = self._state(name)
            self._look_before(name)

    @past_gates
    def handed_out(self, name: str) -> None:
        """Somebody is given the parameter's memory, or has kept it, and may write there."""
        if name not in self._served:
            return
        if name in self._left:
            self._late.setdefault(name, self._checksum(name, (0, self._counts[name])))
            return
        self._handed_out.add(name)
        if name not in self._whole or name not in self._before:
            self._whole.add(name)
            self._look_before(name)

    def given_away(self, memory: int) -> None:
        """See raw_memory.Listener."""
        for name in self._at.get(memory, ()):
            self.handed_out(name)
            self._may_be_kept(name)

    @past_gates
    def leaves(self, names: Iterable[str]) -> None:
        """The parameters' gradients are about to leave."""
        for name in names:
            self._leaves(name)

    def _leaves(self, name: str) -> None:
        self._left[name] = self._state(name)
        if name not in self._counts:  # updated here, and nobody else has it: what was written stays
            return
        changed = self._left[name] != self._known[name]
        if changed and name not in self._whole:
            self._whole.add(name)
            self._before.pop(name, None)  # of a part
        self._look_after(name)
        self._handed_out.discard(name)
        if changed:
            self._writers.add(name)
            if not self._is_as_before(name):
                self.written.add(name)

    @past_gates
    def end_backward(self, read: Iterable[str]) -> Callable[[], Seen]:
        """`read`: parameters that were read in backward after their gradient had left. Raises TrainingError where
        something has been written to one of them.

        Answers what tells what was seen in the step, once the device has computed it: that raises TrainingError for a
        write that autograd did not count and no server has seen.
        """
        for name in {*read, *(self._kept & self._left.keys())}:
            late = self._late.get(name, self._after.get(name) if name in self._kept else None)
            if self._state(name) != self._left[name] or (
                late is not None and int(late) != int(self._checksum(name, (0, self._counts[name])))
            ):
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
        self._before, self._after, self._said, self._left, self._late = {}, {}, {}, {}, {}
        self._due, self._whole = {}, set(self._kept)
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

    def _state(self, name: str) -> _State:
        parameter = self.parameters[name]
        storage = STORAGE(parameter)
        memory = self._memory.get(name)
        if memory is None or memory.cdata != storage._cdata:
            memory = self._memory[name] = StorageWeakRef(storage)
        found = parameter._version, POINTER(parameter), memory
        if name in self._known and found[1:] != self._known[name][1:]:
            self._lies(name)
        return found

    def _lies(self, name: str) -> None:
        """Note where a parameter that a server updates is now."""
        if name in self._served:
            self._at.get(self._address.get(name, 0), set()).discard(name)
            self._address[name] = memory_of(self.parameters[name])
            self._at.setdefault(self._address[name], set()).add(name)
            self._may_be_kept(name)

    @past_gates
    def _may_be_kept(self, name: str) -> None:
        if is_given_away(self.parameters[name]):
            self._kept.add(name)
            self._whole.add(name)
        else:
            self._kept.discard(name)

    def _checksum(self, name: str, part: tuple[int, int]) -> Tensor:
        return checksum(self.parameters[name].detach().reshape(-1)[slice(*part)])


def unequal(name: str, rank: int) -> TrainingError:
    """The parameter or layer has been written to, and differently on workers 0 and `rank`."""
    return TrainingError(
        f"{name} is not the same on worker 0 and on worker {rank}: the model or its loss writes to it, and not alike"
        " everywhere (the `max_norm` of an Embedding does so, since each worker looks up other rows). Write what does"
        " not depend on a worker's own samples (where workers drift or average, nor on trained parameters), register"
        " what does as a buffer, or train with one worker"
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
